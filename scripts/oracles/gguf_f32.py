"""Writes and reads GGUF files of float32 tensors: as much of the format as tiny models need."""

import struct

import numpy as np

UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
NUMBERS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}
ALIGNMENT = 32


def pack_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def kind_of(value):
    """The GGUF type of a Python value."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return UINT32
    if isinstance(value, float):
        return FLOAT32
    return STRING


def pack_value(value):
    if isinstance(value, list):
        kind = INT32 if isinstance(value[0], int) else STRING
        body = b"".join(pack_string(v) if kind == STRING else struct.pack("<i", v) for v in value)
        return struct.pack("<IIQ", ARRAY, kind, len(value)) + body
    kind = kind_of(value)
    body = pack_string(value) if kind == STRING else struct.pack(NUMBERS[kind], value)
    return struct.pack("<I", kind) + body


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write(path, keys, tensors):
    """keys: {name: value}; tensors: {name: array}, rows as NumPy has them (GGUF turns the order round)."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    header += b"".join(pack_string(key) + pack_value(value) for key, value in keys.items())
    data = b""
    for name, array in tensors.items():
        shape = array.shape[::-1]
        header += pack_string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", 0, len(data))
        data += array.astype("<f4").tobytes()
        data += padding(len(data))
    path.write_bytes(header + padding(len(header)) + data)


class Reader:
    def __init__(self, path):
        self.raw = path.read_bytes()
        self.at = 4
        _, tensor_count, key_count = self.take("<IQQ")
        self.keys = {}
        for _ in range(key_count):
            key = self.string()
            self.keys[key] = self.value(self.take("<I")[0])
        infos = []
        for _ in range(tensor_count):
            name = self.string()
            (rank,) = self.take("<I")
            shape = self.take(f"<{rank}Q")
            kind, offset = self.take("<IQ")
            assert kind == 0, f"{name} is not float32"
            infos.append((name, shape[::-1], offset))
        start = self.at + len(padding(self.at))
        self.tensors = {
            name: np.frombuffer(self.raw, "<f4", int(np.prod(shape)), start + offset).reshape(shape)
            for name, shape, offset in infos
        }

    def take(self, layout):
        values = struct.unpack_from(layout, self.raw, self.at)
        self.at += struct.calcsize(layout)
        return values

    def string(self):
        (size,) = self.take("<Q")
        self.at += size
        return self.raw[self.at - size : self.at].decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, count = self.take("<IQ")
            return [self.value(element) for _ in range(count)]
        return self.take(NUMBERS[kind])[0]


def read(path):
    """-> ({key: value}, {tensor: array})"""
    reader = Reader(path)
    return reader.keys, reader.tensors
