"""Draws first tokens after a cached history, as `remontoir bench kv --json` measured them, in SVG."""

import argparse
import json
import sys

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50
COLOURS = ("#1f5fa8", "#b3541e", "#2e7d32", "#6a1b9a")


class Scale:
    """From values 0 ... largest to places on one axis."""

    def __init__(self, largest, begin, end):
        self.largest, self.begin, self.end = largest, begin, end

    def __call__(self, value):
        return self.begin + (self.end - self.begin) * value / self.largest


def round_up(value):
    """The next of 1, 2, 5 x 10^n that is at least `value`."""
    step = 1.0
    while step * 10 < value:
        step *= 10
    while step > value:
        step /= 10
    return next(step * factor for factor in (1, 2, 5, 10) if step * factor >= value)


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def axes(x, y):
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="#888"/>'
    for i in range(6):
        at = y.largest * i / 5
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(at):.1f}" y2="{y(at):.1f}" stroke="#ddd"/>'
        yield text(LEFT - 8, y(at) + 4, f"{at:g}", "end")
    for i in range(5):
        at = x.largest * i / 4
        yield text(x(at), HEIGHT - BOTTOM + 18, f"{at:g}")
    yield text((LEFT + WIDTH) / 2, HEIGHT - 12, "tokens of history in the prefix cache")
    yield text(LEFT, TOP - 14, "first token, ms: median of the measurements, their range, and the fit", "start")


def series(rows, colour, x, y):
    points = " ".join(f"{x(r['history']):.1f},{y(r['fitted_ms']):.1f}" for r in rows)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-dasharray="5 4"/>'
    for row in rows:
        at = x(row["history"])
        yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y(row["low_ms"]):.1f}" y2="{y(row["high_ms"]):.1f}" stroke="{colour}"/>'
        yield f'<circle cx="{at:.1f}" cy="{y(row["first_token_ms"]):.1f}" r="4" fill="{colour}"/>'
    last = rows[-1]
    yield text(x(last["history"]) - 10, y(last["fitted_ms"]) - 12, f"{last['fresh']} fresh tokens", "end")


def draw(history):
    rows = history["rows"]
    x = Scale(8192, LEFT, WIDTH - RIGHT)
    y = Scale(round_up(max(row["high_ms"] for row in rows)), HEIGHT - BOTTOM, TOP)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield from axes(x, y)
    for i, fresh in enumerate(sorted({row["fresh"] for row in rows})):
        yield from series([r for r in rows if r["fresh"] == fresh], COLOURS[i % len(COLOURS)], x, y)
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(prog="scripts/plot_history", description=__doc__)
    parser.add_argument("json", nargs="?", type=argparse.FileType(), default=sys.stdin,
                        help="what `remontoir bench kv --model FILE --json` printed (default: stdin)")
    measured = json.load(parser.parse_args().json)
    if "history" not in measured:
        sys.exit("plot_history: no history in it; run bench kv with --model")
    print("\n".join(draw(measured["history"])))


if __name__ == "__main__":
    main()
