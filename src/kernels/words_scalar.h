// Sixteen floats as an array: the words of words_avx2.h one lane at a time, for any processor.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/math_scalar.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace remontoir {

struct ScalarWords {
  struct Floats {
    std::array<float, 16> lane;
  };
  using Mask = uint32_t;  // a bit a lane

  static constexpr int kRegisters = 1;
  static constexpr int kAccumulators = 24;
  static constexpr int kTileRowsMax = 8;

  static Floats Zero() { return Set(0); }
  static Floats Set(float x) {
    Floats out;
    out.lane.fill(x);
    return out;
  }
  static Floats SetFrom(const float* at) { return Set(*at); }
  static Floats Load(const float* at) { return LoadFirst(at, 16); }
  static void Store(float* at, Floats x) { StoreFirst(at, 16, x); }
  static Floats LoadFirst(const float* at, int64_t count) {
    return Lanes([=](size_t i) { return static_cast<int64_t>(i) < count ? at[i] : 0.0F; });
  }
  static void StoreFirst(float* at, int64_t count, Floats x) {
    for (size_t i = 0; i < 16 && static_cast<int64_t>(i) < count; ++i) at[i] = x.lane[i];
  }
  template <DType kType>
  static Floats LoadAs(const std::byte* at) {
    return Lanes([=](size_t i) {
      if constexpr (kType == DType::kF32) {
        float value;
        std::memcpy(&value, at + 4 * i, 4);
        return value;
      } else if constexpr (kType == DType::kQ8_0) {
        return static_cast<float>(static_cast<int8_t>(at[i]));
      } else {
        uint16_t bits;
        std::memcpy(&bits, at + 2 * i, 2);
        return kType == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
      }
    });
  }
  template <DType kType, int kRows, int kColumns>
  static void AddProducts(const Floats (&rows)[kRows], const std::byte* at, int column,
                          Floats (&sums)[kRows][kColumns]) {
    const Floats x = LoadAs<kType>(at);
    for (int r = 0; r < kRows; ++r) sums[r][column] = MultiplyAdd(rows[r], x, sums[r][column]);
  }
  static void StoreBytes(int8_t* at, Floats x) {
    for (size_t i = 0; i < 16; ++i) at[i] = static_cast<int8_t>(std::lrintf(x.lane[i]));
  }
  static void StoreF16(std::byte* at, Floats x) {
    for (size_t i = 0; i < 16; ++i) {
      const uint16_t half = FloatToHalf(x.lane[i]);
      std::memcpy(at + 2 * i, &half, 2);
    }
  }

  static Floats Add(Floats a, Floats b) {
    return Lanes([&](size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static Floats Subtract(Floats a, Floats b) {
    return Lanes([&](size_t i) { return a.lane[i] - b.lane[i]; });
  }
  static Floats Multiply(Floats a, Floats b) {
    return Lanes([&](size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static Floats MultiplyAdd(Floats a, Floats b, Floats c) {
    return Lanes([&](size_t i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static Floats Smaller(Floats a, Floats b) {
    return Lanes([&](size_t i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Floats Larger(Floats a, Floats b) {
    return Lanes([&](size_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Floats Magnitude(Floats x) {
    return Lanes([&](size_t i) { return std::fabs(x.lane[i]); });
  }

  static Mask Less(Floats a, Floats b) {
    Mask mask = 0;
    for (size_t i = 0; i < 16; ++i) mask |= static_cast<Mask>(a.lane[i] < b.lane[i]) << i;
    return mask;
  }
  static Floats Select(Mask mask, Floats a, Floats b) {
    return Lanes([&](size_t i) { return (mask >> i & 1) != 0 ? a.lane[i] : b.lane[i]; });
  }
  static Floats Clear(Mask mask, Floats x) { return Select(mask, Zero(), x); }
  static uint32_t Bits(Mask mask) { return mask; }
  static Mask FromBits(uint32_t bits) { return bits; }

  static Floats RoundToWhole(Floats x) {
    return Lanes(
        [&](size_t i) { return (x.lane[i] + scalar::kRoundingShift) - scalar::kRoundingShift; });
  }
  static Floats PowerOfTwo(Floats n) {
    return Lanes([&](size_t i) { return PowerOfTwo(n.lane[i]); });
  }
  static Floats Shift(Floats x, Floats n) { return Multiply(x, PowerOfTwo(n)); }
  static Floats RoughProduct(Floats x, Floats n, Floats v) {
    return Lanes([&](size_t i) { return RoughProduct(x.lane[i], n.lane[i], v.lane[i]); });
  }

  static float FoldLanes(Floats x) {
    float lanes[scalar::kLanes];
    std::memcpy(lanes, x.lane.data(), sizeof lanes);
    return scalar::FoldLanes(lanes);
  }
  static float LargestLane(Floats x) {
    float largest = x.lane[0];
    for (const float lane : x.lane) largest = lane > largest ? lane : largest;
    return largest;
  }

  // Lane i: one int32, or four bytes.
  struct Ints {
    std::array<int32_t, 16> lane;
  };
  static Ints SetInts(int32_t x) {
    Ints out;
    out.lane.fill(x);
    return out;
  }
  static Ints LoadInts(const std::byte* at) {
    Ints out;
    std::memcpy(out.lane.data(), at, sizeof out.lane);
    return out;
  }
  static Floats ToFloats(Ints x) {
    return Lanes([&](size_t i) { return static_cast<float>(x.lane[i]); });
  }
  static int32_t SetFour(const int8_t* q) {
    int32_t four;
    std::memcpy(&four, q, 4);
    return four;
  }
  // Out of line: in unrolled kernels it would take minutes to compile.
  [[gnu::noinline]] static Ints DotSevenBits(Ints sum, Ints weights, int32_t four) {
    for (size_t i = 0; i < 16; ++i) {
      for (int b = 0; b < 32; b += 8) {
        sum.lane[i] += (weights.lane[i] >> b & 0xff) * static_cast<int8_t>(four >> b & 0xff);
      }
    }
    return sum;
  }

 private:
  template <class Lane>
  static Floats Lanes(const Lane& lane) {
    Floats out;
    for (size_t i = 0; i < 16; ++i) out.lane[i] = lane(i);
    return out;
  }
  // Sums of unsigned numbers wrap as the processor's do.
  static float RoughProduct(float x, float n, float v) {
    const auto power = static_cast<uint32_t>(std::lrintf(n * (1 << 23)));
    const uint32_t bits = std::bit_cast<uint32_t>(x) + power + (std::bit_cast<uint32_t>(v) >> 1);
    const auto product = static_cast<int32_t>(bits - static_cast<uint32_t>(scalar::kRoughRootBits));
    return std::bit_cast<float>(product > 0 ? product : 0);
  }
  // Not a number has no power; the caller clears or keeps it.
  static float PowerOfTwo(float n) {
    if (n != n) return n;
    if (n < -127.0F || n > 128.0F) n = -127.0F;  // of a lane that is cleared
    return std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  }
};

}  // namespace remontoir
