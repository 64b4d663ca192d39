"""Draws attention, in SVG: the tiles that visiting lists name and what masks save, as `remontoir bench attention --json`
measured it; with --keys how the sparse mode tells keys apart, with --choice what a row group of it read."""

import argparse
import json
import sys

import plot_sparse

WIDTH, HEIGHT = 920, 420
TILE = 16
BLOCKS = 20  # of rows and of keys in the picture of the lists
GRID = (40, 60)
PLOT = (470, 60, 890, 360)
COLOURS = ("#1f5fa8", "#b3541e", "#2e7d32", "#6a1b9a", "#888888")
WHOLE, EDGE, MASKED = "#1f5fa8", "#8fb7e0", "#eeeeee"
DOCUMENTS = (0, 7, 20)  # where they begin, in blocks, and the end
WINDOW = 9  # blocks


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def hidden_by_user(row, key):
    """A block mask of a caller's: some blocks far from the diagonal."""
    return row - key > 1 and (row * 7 + key * 3) % 5 < 2


def tile(row, key):
    """What becomes of a tile: WHOLE, EDGE, or MASKED and then in no list."""
    document = max(begin for begin in DOCUMENTS[:-1] if begin <= row)
    if key > row or key < document or row - key > WINDOW or hidden_by_user(row, key):
        return MASKED
    return EDGE if key == row or row - key == WINDOW else WHOLE


def lists():
    left, top = GRID
    yield text(left, top - 26, "key blocks that each row group visits", "start")
    for row in range(BLOCKS):
        for key in range(BLOCKS):
            yield (f'<rect class="tile" x="{left + key * TILE}" y="{top + row * TILE}" width="{TILE - 1}" '
                   f'height="{TILE - 1}" fill="{tile(row, key)}"/>')
    at = top + BLOCKS * TILE + 20
    for i, (colour, words) in enumerate(((WHOLE, "listed"), (EDGE, "listed, with element mask"),
                                         (MASKED, "in no list"))):
        yield f'<rect x="{left + (0, 80, 270)[i]}" y="{at - 11}" width="12" height="12" fill="{colour}" stroke="#888"/>'
        yield text(left + (0, 80, 270)[i] + 18, at, words, "start")


def curves(rows):
    left, top, right, bottom = PLOT
    low, high = 0.5, 1.2
    x = lambda density: left + (right - left) * density / 0.55
    y = lambda effective: bottom - (bottom - top) * (max(low, effective) - low) / (high - low)
    yield text(left, top - 26, "density x dense time / masked time", "start")
    yield f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" stroke="#888"/>'
    for i in range(8):
        at = low + i / 10
        yield f'<line x1="{left}" x2="{right}" y1="{y(at):.1f}" y2="{y(at):.1f}" stroke="#ddd"/>'
        yield text(left - 8, y(at) + 4, f"{at:.1f}", "end")
    for density in (0.05, 0.1, 0.25, 0.5):
        yield text(x(density), bottom + 18, f"{density:g}")
    yield text((left + right) / 2, bottom + 36, "density; blocks of keys x positions")
    shapes = sorted({(row["keys_per_block"], row["positions_per_block"]) for row in rows}, reverse=True)
    for i, (keys, positions) in enumerate(shapes):
        ones = [row for row in rows if (row["keys_per_block"], row["positions_per_block"]) == (keys, positions)]
        colour = COLOURS[i % len(COLOURS)]
        for row in ones:
            yield (f'<circle cx="{x(row["density"]):.1f}" cy="{y(row["effective_compute"]["median"]):.1f}" r="3.5" '
                   f'fill="{colour}"/>')
        yield f'<circle cx="{left + 12 + 80 * i}" cy="{bottom - 14}" r="3.5" fill="{colour}"/>'
        yield text(left + 20 + 80 * i, bottom - 10, f"{keys} x {positions}", "start")


def draw(measured):
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield from lists()
    yield from curves(measured["masked"])
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(prog="scripts/plot_attention", description=__doc__)
    parser.add_argument("json", nargs="?", type=argparse.FileType(), default=sys.stdin,
                        help="what `remontoir bench attention --json` printed, with --choice what bench/attention_picture did "
                             "(default: stdin)")
    parser.add_argument("--keys", action="store_true", help="the sparse mode, schematic; reads nothing")
    parser.add_argument("--choice", action="store_true", help="what a row group of the sparse mode read")
    arguments = parser.parse_args()
    if arguments.keys:
        print("\n".join(plot_sparse.draw_keys()))
        return
    measured = json.load(arguments.json)
    if arguments.choice:
        if not measured.get("segments"):
            sys.exit("plot_attention: no segments in it; run bench/attention_picture")
        print("\n".join(plot_sparse.draw_choice(measured)))
        return
    if not measured.get("masked"):
        sys.exit("plot_attention: no masked rows in it; run bench attention with --json")
    print("\n".join(draw(measured)))


if __name__ == "__main__":
    main()
