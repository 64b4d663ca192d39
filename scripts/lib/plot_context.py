"""Draws first tokens and single steps against context, as `scripts/compare_context --json` measured them, in SVG."""

import argparse
import json
import math
import sys

from context_table import SIDES, by_context, merged, table

WIDTH, HEIGHT = 960, 420
PANELS = ((70, 50, 470, 360), (550, 50, 940, 360))  # left, top, right, bottom
COLOURS = {"exact": "#1f5fa8", "auto": "#6a1b9a", "sparse": "#2e7d32", "llama.cpp": "#b3541e"}
NAMES = {"exact": "exact", "auto": "auto", "sparse": "custom_sparse", "llama.cpp": "llama.cpp"}


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


class LogScale:
    """From values low ... high to places on one axis, equal factors as far apart."""

    def __init__(self, low, high, begin, end):
        self.low, self.span, self.begin, self.end = math.log(low), math.log(high / low), begin, end

    def __call__(self, value):
        return self.begin + (self.end - self.begin) * (math.log(value) - self.low) / self.span


def marks(low, high):
    """1, 2, 5 x 10^n within these, and one beyond each end: [0] <= low, [-1] >= high."""
    every = [factor * 10.0**power for power in range(-4, 7) for factor in (1, 2, 5)]
    first = max(i for i, mark in enumerate(every) if mark <= low * 1.000001)
    last = min(i for i, mark in enumerate(every) if mark >= high * 0.999999)
    return every[first : max(last, first + 1) + 1]


def axes(panel, x, y, title, contexts, values):
    left, top, right, bottom = panel
    yield text(left, top - 16, title, "start")
    yield f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" stroke="#888"/>'
    for value in values:
        yield f'<line x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
        yield text(left - 8, y(value) + 4, f"{value:g}", "end")
    for context in contexts:
        yield f'<line x1="{x(context):.1f}" x2="{x(context):.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#888"/>'
        yield text(x(context), bottom + 20, f"{context / 1024:g}k")
    yield text((left + right) / 2, bottom + 42, "tokens of prompt and answer")


def series(side, points, x, y):
    """points: (context, {"median", "low", "high"})."""
    colour = COLOURS[side]
    line = " ".join(f"{x(context):.1f},{y(values['median']):.1f}" for context, values in points)
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for context, values in points:
        at = x(context)
        yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y(values["low"]):.1f}" y2="{y(values["high"]):.1f}" stroke="{colour}"/>'
        yield f'<circle cx="{at:.1f}" cy="{y(values["median"]):.1f}" r="3.5" fill="{colour}"/>'


def legend(panel, sides):
    left, top = panel[0] + 14, panel[1] + 18
    for i, side in enumerate(sides):
        at = top + 18 * i
        yield f'<rect x="{left}" y="{at - 9}" width="14" height="4" fill="{COLOURS[side]}"/>'
        yield text(left + 22, at - 2, NAMES[side], "start")


def panel_of(panel, found, metric, title):
    left, top, right, bottom = panel
    contexts = list(found)
    ones = [values[metric] for sides in found.values() for values in sides.values()]
    values = marks(min(one["low"] for one in ones), max(one["high"] for one in ones))
    x = LogScale(contexts[0] / 1.15, max(contexts[-1], 2 * contexts[0]) * 1.15, left, right)
    y = LogScale(values[0], values[-1], bottom, top)
    yield from axes(panel, x, y, title, contexts, values)
    present = [side for side in SIDES if any(side in sides for sides in found.values())]
    for side in present:
        points = [(context, sides[side][metric]) for context, sides in found.items() if side in sides]
        yield from series(side, points, x, y)
    yield from legend(panel, present)


def draw(result):
    found = by_context(result["measured"])
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield from panel_of(PANELS[0], found, "ttft_s", "first token, s: medians and their range")
    yield from panel_of(PANELS[1], found, "gap_mean_ms", "between tokens behind the prompt, ms: mean of a stream")
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(prog="scripts/plot_context", description=__doc__)
    parser.add_argument("files", nargs="*", type=argparse.FileType(), default=[sys.stdin],
                        help="what `scripts/compare_context --json` printed, of one run or several (default: stdin)")
    parser.add_argument("--table", action="store_true", help="print its table, as Markdown")
    parser.add_argument("--json", action="store_true", help="print several runs as one")
    arguments = parser.parse_args()
    results = [json.load(file) for file in arguments.files]
    if not all(result.get("measured") for result in results):
        sys.exit("plot_context: nothing measured in it; run scripts/compare_context --json")
    result = merged(results)
    if result is None:
        sys.exit("plot_context: these runs don't measure the same thing")
    if arguments.json:
        print(json.dumps(result))
    else:
        print(table(result) if arguments.table else "\n".join(draw(result)))


if __name__ == "__main__":
    main()
