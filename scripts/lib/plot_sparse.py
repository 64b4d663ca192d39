"""Pictures of the sparse mode, in SVG: how the keys of a sequence are told apart, and what a row group read of them."""

import random

WIDTH = 920
LEFT, RIGHT = 20, 898
STRIPS = 130  # where the lower parts' strips begin; their names stand before
ANCHOR, FAR, LOCAL, GROUP = "#b3541e", "#8fb7e0", "#2e7d32", "#333333"
EXACT, MOMENTS = "#1f5fa8", "#d5e3f3"
CLUSTERS = ("#1f5fa8", "#b3541e", "#2e7d32", "#6a1b9a", "#888888", "#c2a000", "#00838f", "#ad1457")
# The schematic picture shows fewer and smaller ones than there are.
SEGMENTS, ZOOMED, KEYS, KEYS_PER_BLOCK = 5, 2, 64, 8
ROWS, FAR_BLOCKS, LOCAL_BLOCKS, CHOSEN_BY_A_ROW = 8, 36, 3, 6
SCHEMATIC_HEIGHT = 500


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def box(x, y, width, height, fill, kind=""):
    named = f'class="{kind}" ' if kind else ""
    return f'<rect {named}x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def line(x1, y1, x2, y2, colour="#888"):
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def opened(height):
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">'
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'


def legend(y, entries):
    """entries: (where, colour, words)."""
    for x, colour, words in entries:
        yield box(x, y - 11, 12, 12, colour)
        yield text(x + 18, y, words, "start")


def sequence(top, zoom_to):
    """A sequence's keys by position, and lines from one segment down to where it is looked into."""
    anchor, segment, local = 30, 140, 124
    yield text(LEFT, top, "64 anchor keys", "start")
    yield text(LEFT + anchor + SEGMENTS * segment / 2, top, "far segments of 1,024 keys, sealed")
    yield text(RIGHT, top, "128 local keys or more", "end")
    y = top + 10
    at = LEFT
    yield box(at, y, anchor - 2, 26, ANCHOR)
    at += anchor
    for i in range(SEGMENTS):
        yield box(at, y, segment - 2, 26, FAR, "segment")
        yield text(at + segment / 2, y + 18, f"segment {i}")
        if i == ZOOMED:
            yield line(at, y + 26, STRIPS, zoom_to)
            yield line(at + segment - 2, y + 26, STRIPS + KEYS * 12, zoom_to)
        at += segment
    yield box(at, y, local, 26, LOCAL)
    yield box(at + local, y, RIGHT - at - local, 26, GROUP)
    yield text(RIGHT, y + 44, "the row group: 8 positions", "end")


def blocks_of_similar_keys(top):
    """A segment's keys by position and as sealed; a colour is a kind of key."""
    draw = random.Random(8)
    kinds = [kind for kind in range(KEYS // KEYS_PER_BLOCK) for _ in range(KEYS_PER_BLOCK)]
    draw.shuffle(kinds)
    order = sorted(range(KEYS), key=lambda key: (kinds[key], key))
    sealed = top + 54
    yield text(LEFT, top + 13, f"segment {ZOOMED}", "start")
    yield text(LEFT, sealed + 13, "as sealed", "start")
    yield text(LEFT, sealed + 50, "moments", "start")
    for key in range(KEYS):
        yield box(STRIPS + key * 12, top, 11, 18, CLUSTERS[kinds[key]], "key")
    for place, key in enumerate(order):
        block = place // KEYS_PER_BLOCK
        if block == ZOOMED:
            yield line(STRIPS + key * 12 + 5.5, top + 18, STRIPS + place * 12 + 5.5, sealed, CLUSTERS[block])
        gap = 3 if place % KEYS_PER_BLOCK == KEYS_PER_BLOCK - 1 else 0
        yield box(STRIPS + place * 12, sealed, 12 - gap, 18, CLUSTERS[block], "sealed")
    for block in range(KEYS // KEYS_PER_BLOCK):
        x, y = STRIPS + (block + 0.5) * KEYS_PER_BLOCK * 12, sealed + 46
        angle, length = draw.uniform(-40, 40), draw.uniform(14, 34)
        yield (f'<g transform="translate({x:.1f} {y}) rotate({angle:.0f})"><ellipse rx="{length:.0f}" ry="{draw.uniform(4, 9):.0f}" '
               f'fill="{CLUSTERS[block]}" fill-opacity="0.25"/><line x1="0" x2="{length:.0f}" y1="0" y2="0" '
               f'stroke="{CLUSTERS[block]}"/><circle r="2.5" fill="{CLUSTERS[block]}"/></g>')
    yield text(STRIPS, sealed + 92, "of each block of similar keys: the mean key, an axis, the variance that it leaves; the mean value", "start")


def choices(draw):
    """[row][far block]: what each row chose; rows of a group want much the same."""
    pull = [draw.expovariate(1.0) for _ in range(FAR_BLOCKS)]
    chosen = []
    for _ in range(ROWS):
        wanted = [one * draw.uniform(0.5, 1.5) for one in pull]
        level = sorted(wanted)[-CHOSEN_BY_A_ROW]
        chosen.append([one >= level for one in wanted])
    return chosen


def row_group(top):
    """What each row wants to read exactly, and what is read for all of them."""
    chosen = choices(random.Random(3))
    union = [any(row[block] for row in chosen) for block in range(FAR_BLOCKS)]
    yield text(LEFT, top + 12, "each of the", "start")
    yield text(LEFT, top + 28, "8 rows wants", "start")
    lines = [(top + 10 * i, 9, row) for i, row in enumerate(chosen)] + [(top + 10 * ROWS + 12, 18, union)]
    yield text(LEFT, lines[-1][0] + 14, "read for all", "start")
    step = 768 / (1 + FAR_BLOCKS + LOCAL_BLOCKS)
    for y, height, row in lines:
        fills = [ANCHOR] + [EXACT if wanted else MOMENTS for wanted in row] + [LOCAL] * LOCAL_BLOCKS
        for i, fill in enumerate(fills):
            yield box(STRIPS + i * step, y, step - 2, height, fill, "union" if row is union else "wanted")
    yield from legend(lines[-1][0] + 50, [
        (STRIPS, ANCHOR, "anchor, always exact"), (STRIPS + 175, LOCAL, "local, always exact"),
        (STRIPS + 335, EXACT, "far, may hide something: exact"), (STRIPS + 575, MOMENTS, "far, the rest: by moments"),
    ])


def draw_keys():
    """How the mode tells keys apart."""
    yield from opened(SCHEMATIC_HEIGHT)
    yield from sequence(28, 112)
    yield from blocks_of_similar_keys(112)
    yield text(STRIPS, 300, "a row group and the blocks that it sees", "start")
    yield from row_group(316)
    yield "</svg>"


READ_TOP, READ_ROW = 66, 44
BY_POSITION, AS_SEALED = (92, 472), (500, 898)  # from, to
KEYS_PER_CELL = 8  # of the places by position
LOG2_SHARE_MIN = -20.0  # of a row group's weight: less isn't drawn


def path(cells, fill, opacity=1.0):
    """Rectangles (x, y, width, height) of one colour."""
    shapes = "".join(f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z" for x, y, width, height in cells)
    return f'<path d="{shapes}" fill="{fill}" fill-opacity="{opacity:.2f}"/>' if cells else ""


def by_position(segments):
    """Where the keys that were read stand in the text: the darker, the more of eight neighbours."""
    left, right = BY_POSITION
    cells = {count: [] for count in range(KEYS_PER_CELL + 1)}
    for i, segment in enumerate(segments):
        step = (right - left) / len(segment["read"])
        for place, count in enumerate(segment["read"]):
            cells[int(count)].append((left + place * step, READ_TOP + i * READ_ROW, step, READ_ROW - 8))
        yield box(left, READ_TOP + i * READ_ROW, right - left, READ_ROW - 8, MOMENTS)
    for count in range(1, KEYS_PER_CELL + 1):
        yield path(cells[count], EXACT, 0.2 + 0.8 * count / KEYS_PER_CELL)


def as_sealed(segments):
    """The blocks' weights, on a logarithmic scale, and which of them were read."""
    left, right = AS_SEALED
    read, known = [], []
    for i, segment in enumerate(segments):
        step = (right - left) / len(segment["log2_share"])
        bottom = READ_TOP + (i + 1) * READ_ROW - 8
        for block, share in enumerate(segment["log2_share"]):
            height = max(1.0, (READ_ROW - 8) * (1 - max(share, LOG2_SHARE_MIN) / LOG2_SHARE_MIN))
            cell = (left + block * step, bottom - height, step - 1, height)
            (read if segment["chosen"][block] == "1" else known).append(cell)
        yield line(left, bottom, right, bottom, "#ccc")
    yield path(known, FAR)
    yield path(read, EXACT)


def draw_choice(found):
    """What one row group of a real prompt read, as bench/attention_picture printed it."""
    segments = found["segments"]
    chosen = sum(segment["chosen"].count("1") for segment in segments)
    blocks = sum(len(segment["chosen"]) for segment in segments)
    height = READ_TOP + len(segments) * READ_ROW + 40
    yield from opened(height)
    yield text(LEFT, 24, f"{found['model']}, layer {found['layer']}, head {found['head']}, the 8 rows from position {found['position']:,} on: "
               f"{chosen} of {blocks} far blocks read exactly", "start")
    yield text(LEFT, READ_TOP - 14, "segment", "start")
    yield text(BY_POSITION[0], READ_TOP - 14, "keys by position", "start")
    yield text(AS_SEALED[0], READ_TOP - 14, "blocks as sealed; height: weight, in factors of two", "start")
    for i in range(len(segments)):
        yield text(LEFT, READ_TOP + i * READ_ROW + 22, str(i), "start")
    yield from by_position(segments)
    yield from as_sealed(segments)
    at = READ_TOP + len(segments) * READ_ROW + 20
    yield from legend(at, [(BY_POSITION[0], EXACT, "read exactly"), (BY_POSITION[0] + 130, MOMENTS, "by moments")])
    yield from legend(at, [(AS_SEALED[0], EXACT, "read exactly"), (AS_SEALED[0] + 130, FAR, "by moments")])
    yield "</svg>"
