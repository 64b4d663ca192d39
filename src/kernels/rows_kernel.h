// Everything between products and attention, row by row, in the words of an instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"
#include "tensor/half.h"
#include "tensor/kv_layout.h"

namespace remontoir {

template <class Words>
class RowsKernel {
 public:
  static void Install(KernelTable* table) {
    table->quantise_row = &QuantiseRow;
    table->quantise_row_fine = &QuantiseRowFine;
    table->store_key = &StoreKey;
    table->store_value = &StoreValue;
    table->rope_interleaved = &RopeInterleaved;
    table->rope_halves = &RopeHalves;
    table->rms_norm = &RmsNorm;
    table->silu_gate = &SiluGate;
    table->gelu_tanh_gate = &GeluTanhGate;
    table->clamped_swiglu_gate = &ClampedSwigluGate;
    table->add = &Add;
    table->scale = &Scale;
    table->soft_cap = &SoftCap;
    table->add_scaled = &AddScaled;
  }

 private:
  using Floats = typename Words::Floats;
  using Math = VectorMath<Words>;

  static constexpr int kLanes = scalar::kLanes;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  // Calls body(index, count, whole) for runs of sixteen values; the last run may be short.
  template <class Body>
  static void ForEachRun(int64_t width, const Body& body) {
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) body(i, int64_t{kLanes}, std::true_type{});
    if (i < width) body(i, width - i, std::false_type{});
  }

  template <class Whole>
  static Floats Load(const float* at, int64_t count, Whole) {
    return Whole::value ? Words::Load(at) : Words::LoadFirst(at, count);
  }
  template <class Whole>
  static void Store(float* at, int64_t count, Whole, Floats value) {
    if constexpr (Whole::value) {
      Words::Store(at, value);
    } else {
      Words::StoreFirst(at, count, value);
    }
  }

  // out = operation(a, b), value by value.
  template <class Operation>
  static void MapTwo(const float* a, const float* b, int64_t width, float* out,
                     const Operation& operation) {
    ForEachRun(width, [&](int64_t i, int64_t count, auto whole) {
      Store(out + i, count, whole, operation(Load(a + i, count, whole), Load(b + i, count, whole)));
    });
  }
  template <class Operation>
  static void MapOne(int64_t width, float* inout, const Operation& operation) {
    ForEachRun(width, [&](int64_t i, int64_t count, auto whole) {
      Store(inout + i, count, whole, operation(Load(inout + i, count, whole)));
    });
  }

  // The 32 values of a block in registers: as they are, or what their 8-bit form leaves over.
  struct Block {
    Floats low;
    Floats high;
  };

  static Block LoadBlock(const float* in) { return {Words::Load(in), Words::Load(in + kLanes)}; }

  // Writes the 8-bit form; returns the whole numbers, of which a value is scale times one.
  static Block QuantiseBlock(const Block& in, ActivationBlock* out) {
    const Floats low_magnitude = Words::Magnitude(in.low);
    const Floats high_magnitude = Words::Magnitude(in.high);
    const Floats infinity = Words::Set(kInfinity);
    const bool finite = Words::All(Words::Less(low_magnitude, infinity)) &&
                        Words::All(Words::Less(high_magnitude, infinity));
    const float largest = Words::LargestLane(Words::Larger(low_magnitude, high_magnitude));
    if (!finite || largest < scalar::kQuantisedMin) {
      *out = {};
      if (!finite) out->scale = std::numeric_limits<float>::quiet_NaN();
      return {Words::Zero(), Words::Zero()};
    }
    const Floats inverse = Words::Set(127.0F / largest);
    const Block whole = {Words::RoundToWhole(Words::Multiply(in.low, inverse)),
                         Words::RoundToWhole(Words::Multiply(in.high, inverse))};
    Words::StoreBytes(out->q, whole.low);
    Words::StoreBytes(out->q + kLanes, whole.high);
    out->scale = largest / 127.0F;
    // Sums of whole numbers are exact in any order; adding zero makes a minus zero plus zero.
    out->sum_low = Words::FoldLanes(whole.low) + 0.0F;
    out->sum_high = Words::FoldLanes(whole.high) + 0.0F;
    out->sum = out->sum_low + out->sum_high;
    return whole;
  }

  static void QuantiseRow(const float* in, int64_t width, ActivationBlock* out) {
    for (int64_t b = 0; b < width / kActivationBlock; ++b) {
      QuantiseBlock(LoadBlock(in + b * kActivationBlock), out + b);
    }
  }

  static void QuantiseRowFine(const float* in, int64_t width, ActivationBlock* first,
                              ActivationBlock* second) {
    for (int64_t b = 0; b < width / kActivationBlock; ++b) {
      const Block block = LoadBlock(in + b * kActivationBlock);
      const Block whole = QuantiseBlock(block, first + b);
      const Floats scale = Words::Set(first[b].scale);
      QuantiseBlock({Words::Subtract(block.low, Words::Multiply(scale, whole.low)),
                     Words::Subtract(block.high, Words::Multiply(scale, whole.high))},
                    second + b);
    }
  }

  // Calls store(index, bytes, count) for runs of up to sixteen values in the element type.
  template <class StoreRun>
  static void Convert(const float* in, int width, DType type, const StoreRun& store) {
    alignas(64) std::array<std::byte, 4 * kLanes> run;
    ForEachRun(width, [&](int64_t i, int64_t count, auto whole) {
      const Floats values = Load(in + i, count, whole);
      if (type == DType::kF32) {
        Words::Store(reinterpret_cast<float*>(run.data()), values);
      } else if (type == DType::kF16) {
        Words::StoreF16(run.data(), values);
      } else {
        Words::StoreBf16(run.data(), values);
      }
      store(i, run.data(), count);
    });
  }

  // A q8_0 block of `count` values, at most 32, as kv_layout.h has it: writes 32 bytes, of which
  // the first `count` count, and returns the scale's float16.
  static uint16_t QuantiseKvBlock(const float* in, int64_t count, int8_t* out) {
    const Block block =
        count == kKvScaleBlock
            ? LoadBlock(in)
            : Block{Words::LoadFirst(in, count), Words::LoadFirst(in + kLanes, count - kLanes)};
    const Floats low_magnitude = Words::Magnitude(block.low);
    const Floats high_magnitude = Words::Magnitude(block.high);
    const Floats infinity = Words::Set(kInfinity);
    const bool finite = Words::All(Words::Less(low_magnitude, infinity)) &&
                        Words::All(Words::Less(high_magnitude, infinity));
    const float largest = Words::LargestLane(Words::Larger(low_magnitude, high_magnitude));
    const uint16_t scale = finite ? FloatToHalf(largest / 127.0F) : scalar::kHalfNan;
    if (scale == 0 || scale >= scalar::kHalfInfinity) {
      std::memset(out, 0, kKvScaleBlock);
      return scale == 0 ? scale : scalar::kHalfNan;
    }
    const Floats inverse = Words::Set(1.0F / HalfToFloat(scale));
    const auto whole = [&](Floats x) {
      x = Words::Smaller(Words::Multiply(x, inverse), Words::Set(127.0F));
      return Words::RoundToWhole(Words::Larger(x, Words::Set(-127.0F)));
    };
    Words::StoreBytes(out, whole(block.low));
    Words::StoreBytes(out + kLanes, whole(block.high));
    return scale;
  }

  // Calls store(index, bytes, count) for a token's q8_0 blocks and puts their scales into the part.
  template <class StoreBlock>
  static void Quantise(const float* in, int width, int slot, std::byte* head,
                       const StoreBlock& store) {
    alignas(64) std::array<int8_t, kKvScaleBlock> block;
    std::byte* scale_at = head + KvScalesOffset(width) + int64_t{2} * slot;
    for (int64_t i = 0; i < width; i += kKvScaleBlock) {
      const int64_t count = std::min<int64_t>(kKvScaleBlock, width - i);
      const uint16_t scale = QuantiseKvBlock(in + i, count, block.data());
      std::memcpy(scale_at, &scale, 2);
      scale_at += int64_t{2} * kKvPageTokens;
      store(i, reinterpret_cast<const std::byte*>(block.data()), count);
    }
  }

  static void StoreValue(const float* value, int width, DType type, int slot,
                         std::byte* head_values) {
    if (type == DType::kQ8_0) {
      std::byte* quants = head_values + static_cast<int64_t>(slot) * width;
      return Quantise(value, width, slot, head_values,
                      [&](int64_t i, const std::byte* block, int64_t count) {
                        std::memcpy(quants + i, block, static_cast<size_t>(count));
                      });
    }
    const int64_t bytes = type == DType::kF32 ? 4 : 2;
    std::byte* row = head_values + static_cast<int64_t>(slot) * width * bytes;
    Convert(value, width, type, [&](int64_t i, const std::byte* run, int64_t count) {
      std::memcpy(row + i * bytes, run, static_cast<size_t>(count * bytes));
    });
  }

  template <size_t kBytes>
  static void StoreKeyOf(const float* key, int width, DType type, int slot, std::byte* head_keys) {
    const int64_t first =
        static_cast<int64_t>(slot / kKvPanelKeys) * width * kKvPanelKeys + slot % kKvPanelKeys;
    const auto store = [&](int64_t i, const std::byte* run, int64_t count) {
      for (int64_t d = 0; d < count; ++d) {
        std::memcpy(head_keys + (first + (i + d) * kKvPanelKeys) * static_cast<int64_t>(kBytes),
                    run + d * static_cast<int64_t>(kBytes), kBytes);
      }
    };
    if constexpr (kBytes == 1) {
      Quantise(key, width, slot, head_keys, store);
    } else {
      Convert(key, width, type, store);
    }
  }

  static void StoreKey(const float* key, int width, DType type, int slot, std::byte* head_keys) {
    if (type == DType::kF32) return StoreKeyOf<4>(key, width, type, slot, head_keys);
    if (type == DType::kQ8_0) return StoreKeyOf<1>(key, width, type, slot, head_keys);
    StoreKeyOf<2>(key, width, type, slot, head_keys);
  }

  static void RopeInterleaved(float* head, int pairs, const float* cos, const float* sin) {
    constexpr int kPairs = kLanes / 2;
    for (int i = 0; i < pairs; i += kPairs) {
      const int64_t count = std::min(kPairs, pairs - i);
      const Floats x = Words::LoadFirst(head + int64_t{2} * i, 2 * count);
      const Floats crossed =
          Words::Multiply(Words::SwapNeighbours(x), Words::LoadTwice(sin + i, count));
      Words::StoreFirst(head + int64_t{2} * i, 2 * count,
                        Words::MultiplySubtractAdd(x, Words::LoadTwice(cos + i, count), crossed));
    }
  }

  static void RopeHalves(float* head, int pairs, const float* cos, const float* sin) {
    ForEachRun(pairs, [&](int64_t i, int64_t count, auto whole) {
      const Floats x = Load(head + i, count, whole);
      const Floats y = Load(head + pairs + i, count, whole);
      const Floats c = Load(cos + i, count, whole);
      const Floats s = Load(sin + i, count, whole);
      Store(head + i, count, whole, Words::MultiplySubtract(x, c, Words::Multiply(y, s)));
      Store(head + pairs + i, count, whole, Words::MultiplyAdd(y, c, Words::Multiply(x, s)));
    });
  }

  static void RmsNorm(const float* in, const float* weight, float epsilon, int64_t width,
                      float* out) {
    Floats lanes = Words::Zero();
    ForEachRun(width, [&](int64_t i, int64_t count, auto whole) {
      const Floats x = Load(in + i, count, whole);  // zeros past the end add nothing
      lanes = Words::MultiplyAdd(x, x, lanes);
    });
    const float mean = Words::FoldLanes(lanes) / static_cast<float>(width);
    const Floats factor = Words::Set(1.0F / std::sqrt(mean + epsilon));
    MapTwo(in, weight, width, out,
           [&](Floats x, Floats w) { return Words::Multiply(Words::Multiply(x, factor), w); });
  }

  // x / (1 + e^exponent) * up
  static Floats Gate(Floats x, Floats exponent, Floats up) {
    const Floats denominator = Words::Add(Words::Set(1.0F), Math::Exp(exponent));
    return Words::Multiply(Words::Divide(x, denominator), up);
  }

  static void SiluGate(const float* gate, const float* up, int64_t width, float* out) {
    MapTwo(gate, up, width, out, [](Floats x, Floats u) { return Gate(x, Words::Negate(x), u); });
  }

  static void GeluTanhGate(const float* gate, const float* up, int64_t width, float* out) {
    MapTwo(gate, up, width, out, [](Floats x, Floats u) {
      const Floats slope = Words::MultiplyAdd(Words::Multiply(x, x), Words::Set(scalar::kGeluCubic),
                                              Words::Set(scalar::kGeluLinear));
      return Gate(x, Words::Multiply(Words::Set(-2.0F), Words::Multiply(x, slope)), u);
    });
  }

  static void ClampedSwigluGate(const float* gate, const float* up, int64_t width, float* out) {
    const Floats bound = Words::Set(scalar::kSwigluBound);
    const Floats minus_bound = Words::Set(-scalar::kSwigluBound);
    MapTwo(gate, up, width, out, [&](Floats g, Floats u) {
      const Floats x = Words::Smaller(bound, g);
      u = Words::Larger(minus_bound, Words::Smaller(bound, u));
      return Gate(x, Words::Multiply(Words::Set(-scalar::kSwigluSlope), x),
                  Words::Add(u, Words::Set(1.0F)));
    });
  }

  static void Add(const float* in, int64_t width, float* inout) {
    MapTwo(in, inout, width, inout, [](Floats a, Floats b) { return Words::Add(b, a); });
  }

  static void Scale(float factor, int64_t width, float* inout) {
    const Floats factors = Words::Set(factor);
    MapOne(width, inout, [&](Floats x) { return Words::Multiply(x, factors); });
  }

  static void SoftCap(float cap, int64_t width, float* inout) {
    const Floats caps = Words::Set(cap);
    const Floats inverse = Words::Set(1.0F / cap);
    MapOne(width, inout, [&](Floats x) {
      return Words::Multiply(Math::Tanh(Words::Multiply(x, inverse)), caps);
    });
  }

  static void AddScaled(const float* in, float factor, int64_t width, float* inout) {
    const Floats factors = Words::Set(factor);
    MapTwo(in, inout, width, inout,
           [&](Floats a, Floats b) { return Words::MultiplyAdd(a, factors, b); });
  }
};

}  // namespace remontoir
