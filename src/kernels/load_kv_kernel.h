// Keys and values of a KV page as rows of float32, in the words of an instruction set.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/math_scalar.h"
#include "kernels/row_tiles.h"
#include "tensor/half.h"
#include "tensor/kv_layout.h"

namespace remontoir {

template <class Words>
class LoadKvKernel {
 public:
  static void Install(KernelTable* table) {
    table->load_keys = &LoadKeys;
    table->load_values = &LoadValues;
  }

 private:
  using Floats = typename Words::Floats;
  static constexpr int kLanes = scalar::kLanes;

  static Floats LoadSixteen(const std::byte* at, DType type) {
    switch (type) {
      case DType::kF32: return Words::template LoadAs<DType::kF32>(at);
      case DType::kBF16: return Words::template LoadAs<DType::kBF16>(at);
      case DType::kQ8_0: return Words::template LoadAs<DType::kQ8_0>(at);
      default: return Words::template LoadAs<DType::kF16>(at);
    }
  }
  static int64_t ElementBytes(DType type) {
    return type == DType::kF32 ? 4 : type == DType::kQ8_0 ? 1 : 2;
  }

  // The scales of the sixteen keys of a panel in the q8_0 block of a column; of keys or of values.
  static Floats Scales(const std::byte* part, int width, int column, int key) {
    const int64_t index = int64_t{column / kKvScaleBlock} * kKvPageTokens + key;
    return Words::template LoadAs<DType::kF16>(part + KvScalesOffset(width) + 2 * index);
  }

  static void LoadKeys(const std::byte* head_keys, int width, DType type, int64_t stride,
                       float* rows) {
    const int64_t step = kLanes * ElementBytes(type);
    alignas(64) float lanes[kLanes];
    for (int panel = 0; panel < kKvPageTokens / kLanes; ++panel) {
      float* out = rows + panel * kLanes * stride;
      const std::byte* at = head_keys + panel * width * step;
      for (int d = 0; d < width; ++d, at += step) {
        Floats values = LoadSixteen(at, type);
        if (type == DType::kQ8_0) {
          values = Words::Multiply(values, Scales(head_keys, width, d, panel * kLanes));
        }
        Words::Store(lanes, values);
        for (int key = 0; key < kLanes; ++key) out[key * stride + d] = lanes[key];
      }
    }
  }

  // The last column run of a width that is no multiple of 16, value by value.
  static float LoadOne(const std::byte* values, int64_t index, DType type) {
    using Tiles = RowTiles<Words>;
    switch (type) {
      case DType::kF32: return Tiles::template LoadOne<DType::kF32>(values, index);
      case DType::kBF16: return Tiles::template LoadOne<DType::kBF16>(values, index);
      case DType::kQ8_0: return Tiles::template LoadOne<DType::kQ8_0>(values, index);
      default: return Tiles::template LoadOne<DType::kF16>(values, index);
    }
  }

  static float ScaleOf(const std::byte* part, int width, int column, int key) {
    const int64_t index = int64_t{column / kKvScaleBlock} * kKvPageTokens + key;
    uint16_t bits;
    std::memcpy(&bits, part + KvScalesOffset(width) + 2 * index, 2);
    return HalfToFloat(bits);
  }

  static void LoadValues(const std::byte* head_values, int width, DType type, int64_t stride,
                         float* rows) {
    for (int key = 0; key < kKvPageTokens; ++key, rows += stride) {
      const int64_t first = int64_t{key} * width;
      int d = 0;
      for (; d + kLanes <= width; d += kLanes) {
        Floats values = LoadSixteen(head_values + (first + d) * ElementBytes(type), type);
        if (type == DType::kQ8_0) {
          values = Words::Multiply(values, Words::Set(ScaleOf(head_values, width, d, key)));
        }
        Words::Store(rows + d, values);
      }
      for (; d < width; ++d) {
        float value = LoadOne(head_values, first + d, type);
        if (type == DType::kQ8_0) value *= ScaleOf(head_values, width, d, key);
        rows[d] = value;
      }
    }
  }
};

}  // namespace remontoir
