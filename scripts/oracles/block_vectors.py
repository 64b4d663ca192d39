"""Blocks of the codebook, ternary and NVFP4 types and the float32 values that the `gguf` package (MIT) reads in them.

Usage: block_vectors.py FOLDER   (wants `pip install gguf==0.19.0 numpy`)
Writes FOLDER/dequant/TYPE.raw.npy, uint8 [64][bytes of a block], and TYPE.f32.npy, float32 [64][values of a block];
`tar -cJf tests/data/block_vectors.tar.xz -C FOLDER dequant` keeps them. Blocks 0 ... 47 have any payload and plausible
scales; the others are edges: scales of zero, negative, subnormal and the largest, payloads all of one byte.
"""
import pathlib
import sys

import gguf
import numpy as np

BLOCKS = 64
SCALE_AT = {"TQ1_0": 52, "TQ2_0": 64, "IQ1_S": 0, "IQ1_M": None, "IQ2_XXS": 0, "IQ2_XS": 0, "IQ2_S": 0, "IQ3_XXS": 0,
            "IQ3_S": 0, "NVFP4": None}
EDGES = [0.0, -0.0, 5.96e-8, -5.96e-8, 6.1e-5, 65504.0, -65504.0, 1.0, -1.0]
PAYLOADS = [0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F]


def set_half(raw, name, block, value):
    """Puts a half-precision scale where blocks of this type have it."""
    half = np.frombuffer(np.float16(value).tobytes(), np.uint8)
    if name == "IQ1_M":  # a nibble on top of each 16-bit word of scales
        for word in range(4):
            nibble = half[word // 2] >> (4 * (word % 2)) & 15
            raw[block, 48 + 2 * word + 1] = raw[block, 48 + 2 * word + 1] & 15 | nibble << 4
    elif name != "NVFP4":  # every byte is a finite scale there
        raw[block, SCALE_AT[name]:SCALE_AT[name] + 2] = half


def make(name, rng):
    kind = gguf.GGMLQuantizationType[name]
    block_bytes = gguf.GGML_QUANT_SIZES[kind][1]
    raw = rng.integers(0, 256, (BLOCKS, block_bytes), dtype=np.uint8)
    for i, byte in enumerate(PAYLOADS):
        raw[48 + len(EDGES) + i] = byte
    for block in range(BLOCKS):
        edge = block - 48
        value = EDGES[edge] if 0 <= edge < len(EDGES) else rng.uniform(0.001, 0.2) * rng.choice([-1, 1, 1])
        set_half(raw, name, block, value)
    values = np.ascontiguousarray(gguf.quants.dequantize(raw, kind), np.float32).reshape(BLOCKS, -1)
    assert np.isfinite(values).all()
    return raw, values


def main():
    folder = pathlib.Path(sys.argv[1]) / "dequant"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(11)
    for name in SCALE_AT:
        raw, values = make(name, rng)
        np.save(folder / f"{name}.raw.npy", raw)
        np.save(folder / f"{name}.f32.npy", values)


if __name__ == "__main__":
    main()
