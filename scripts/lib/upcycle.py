"""Makes a mixture of experts out of a dense GGUF model, and a dense model of as many multiplications.

Usage: upcycle.py DENSE.gguf OUT.gguf [--experts N] [--used N] [--seed N] [--wide]

Every feed-forward block becomes N equal experts behind a random router: as the weights of the chosen ones sum to 1, the
model says what the dense one says, whatever the router chooses. With --wide blocks become one of `used` times their width
instead: what a token costs is the same, what it says isn't. Blocks of weights are copied byte by byte. Standard library
alone: it reads and writes GGUF v3 itself.
"""

import argparse
import random
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a metadata value, by its type
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
F32 = 0
# Values and bytes of a block, by tensor type: those that the dense models here have.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 12: (256, 144),
          13: (256, 176), 14: (256, 210), 30: (1, 2)}
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        length = self.number("Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at])

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            for _ in range(count if element in (STRING, ARRAY) else 0):
                self.skip_value(element)
            self.at += count * SIZES.get(element, 0)
        else:
            self.at += SIZES[kind]


def string(text):
    return struct.pack("<Q", len(text)) + text


def uint32_key(key, value):
    return string(key.encode()) + struct.pack("<II", UINT32, value)


def read(data):
    """Metadata as (key, raw entry), tensors as (name, dimensions, type, raw bytes), the alignment."""
    reader = Reader(data)
    if data[:4] != b"GGUF":
        sys.exit("no GGUF file")
    reader.at = 8
    tensor_count, key_count = reader.number("Q"), reader.number("Q")
    keys, alignment = [], 32
    for _ in range(key_count):
        begin = reader.at
        key = reader.string().decode()
        kind = reader.number("I")
        if key == "general.alignment":
            (alignment,) = struct.unpack_from("<I", data, reader.at)
        reader.skip_value(kind)
        keys.append((key, kind, bytes(data[begin:reader.at])))
    table = []
    for _ in range(tensor_count):
        name = reader.string().decode()
        dimensions = [reader.number("Q") for _ in range(reader.number("I"))]
        table.append((name, dimensions, reader.number("I"), reader.number("Q")))
    start = -(-reader.at // alignment) * alignment
    tensors = []
    for name, dimensions, kind, offset in table:
        values, block_bytes = BLOCKS[kind]
        count = 1
        for dimension in dimensions:
            count *= dimension
        size = count // values * block_bytes
        tensors.append((name, dimensions, kind, data[start + offset:start + offset + size]))
    return keys, tensors, alignment


def repeated_rows(raw, rows, times):
    """Each row's bytes `times` after one another."""
    row = len(raw) // rows
    return b"".join(bytes(raw[i * row:(i + 1) * row]) * times for i in range(rows))


def expert_tensors(tensors, arguments, generator):
    for name, dimensions, kind, raw in tensors:
        parts = name.split(".")
        if len(parts) != 4 or parts[2] not in FEED_FORWARD:
            yield name, dimensions, kind, raw
            continue
        if arguments.wide:
            if parts[2] == "ffn_down":
                width = [dimensions[0] * arguments.used, dimensions[1]]
                yield name, width, kind, repeated_rows(raw, dimensions[1], arguments.used)
            else:
                yield name, [dimensions[0], dimensions[1] * arguments.used], kind, bytes(raw) * arguments.used
            continue
        if parts[2] == "ffn_gate":
            width = dimensions[0]
            router = [generator.gauss(0, 4 / width**0.5) for _ in range(width * arguments.experts)]
            yield f"blk.{parts[1]}.ffn_gate_inp.weight", [width, arguments.experts], F32, struct.pack(f"<{len(router)}f", *router)
        yield f"blk.{parts[1]}.{parts[2]}_exps.weight", [*dimensions, arguments.experts], kind, bytes(raw) * arguments.experts


def metadata(keys, arguments):
    architecture = next(entry for key, _, entry in keys if key == "general.architecture")
    family = Reader(architecture)
    family.string()
    family.number("I")
    prefix = family.string().decode()
    feed_forward = f"{prefix}.feed_forward_length"
    entries = []
    for key, kind, entry in keys:
        if arguments.wide and key == feed_forward:
            (width,) = struct.unpack("<I", entry[-4:])
            entry = uint32_key(feed_forward, width * arguments.used)
        entries.append(entry)
    if not arguments.wide:
        entries.append(uint32_key(f"{prefix}.expert_count", arguments.experts))
        entries.append(uint32_key(f"{prefix}.expert_used_count", arguments.used))
    return entries


def write(path, entries, tensors, alignment):
    def padded(size):
        return -(-size // alignment) * alignment

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    offset = 0
    for name, dimensions, kind, raw in tensors:
        head += string(name.encode()) + struct.pack("<I", len(dimensions))
        head += struct.pack(f"<{len(dimensions)}Q", *dimensions) + struct.pack("<IQ", kind, offset)
        offset += padded(len(raw))
    with open(path, "wb") as out:
        out.write(head.ljust(padded(len(head)), b"\0"))
        for _, _, _, raw in tensors:
            out.write(raw)
            out.write(b"\0" * (padded(len(raw)) - len(raw)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dense")
    parser.add_argument("out")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--used", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wide", action="store_true")
    arguments = parser.parse_args()
    with open(arguments.dense, "rb") as file:
        data = memoryview(file.read())
    keys, tensors, alignment = read(data)
    made = list(expert_tensors(tensors, arguments, random.Random(arguments.seed)))
    write(arguments.out, metadata(keys, arguments), made, alignment)


if __name__ == "__main__":
    main()
