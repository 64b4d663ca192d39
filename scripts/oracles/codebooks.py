"""Writes src/tensor/codebooks.cc: the codebooks of GGML's IQ types, as the `gguf` package (MIT) has them.

Usage: codebooks.py > src/tensor/codebooks.cc   (wants `pip install gguf==0.19.0 numpy`), then scripts/format
"""
import gguf
import numpy as np

# The package's type, our name, what a vector stands for.
BOOKS = [
    (gguf.quants.IQ1_S, "kIQ1Codebook", "IQ1_S, IQ1_M: eight levels of 0 ... 2 that stand for -1, 0, 1"),
    (gguf.quants.IQ2_XXS, "kIQ2_XXSCodebook", "IQ2_XXS: eight levels of 0 ... 2 that stand for 8, 25, 43"),
    (gguf.quants.IQ2_XS, "kIQ2_XSCodebook", "IQ2_XS: likewise"),
    (gguf.quants.IQ2_S, "kIQ2_SCodebook", "IQ2_S: likewise"),
    (gguf.quants.IQ3_XXS, "kIQ3_XXSCodebook", "IQ3_XXS: four levels of 0 ... 7 that stand for 4, 12, 20, 28, 36, 44, 52, 62"),
    (gguf.quants.IQ3_S, "kIQ3_SCodebook", "IQ3_S: four levels of 0 ... 7 that stand for 1, 3, ..., 15"),
]


def words(book):
    """Each vector's levels as one 16-bit number, the first one in its lowest bits."""
    book.init_grid()
    vectors = book.grid.reshape(book.grid_shape)
    levels = np.searchsorted(np.array(book.grid_map), vectors)
    assert (np.array(book.grid_map)[levels] == vectors).all()
    bits = 16 // vectors.shape[1]
    return (levels.astype(np.int64) << (bits * np.arange(vectors.shape[1]))).sum(axis=1)


def main():
    print("// Codebooks of the IQ types: the numbers are those of the gguf package (MIT), packed and")
    print("// written here by scripts/oracles/codebooks.py.")
    print('#include "tensor/codebooks.h"\n')
    print("namespace remontoir {\n")
    print("// clang-format off")
    for book, name, meaning in BOOKS:
        numbers = [f"0x{word:04x}" for word in words(book)]
        print(f"\n// {meaning}.")
        print(f"const std::array<uint16_t, {len(numbers)}> {name} = {{{{")
        for first in range(0, len(numbers), 12):
            print("    " + ", ".join(numbers[first:first + 12]) + ",")
        print("}};")
    print("\n// clang-format on\n\n}  // namespace remontoir")


if __name__ == "__main__":
    main()
