// Reads reference numbers: NumPy arrays of floats, from files that nobody vouches for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace remontoir {

// Row by row.
struct NpyMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;  // [rows][columns]

  std::span<const float> Row(int64_t row) const {
    return std::span(values).subspan(static_cast<size_t>(row * columns),
                                     static_cast<size_t>(columns));
  }
};

// A .npy file of one dimension (one row) or two, little-endian float16, float32 or float64 in C
// order. Errors name the file and what is wrong with it; an array is as large as its file, no
// larger.
Result<NpyMatrix> ReadNpyMatrix(const std::string& path);

}  // namespace remontoir
