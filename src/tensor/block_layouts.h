// Quantised blocks as they lie in GGUF files, little-endian; scales are half-precision bits.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace remontoir {

static_assert(std::endian::native == std::endian::little, "blocks are read in place");

// Types of 32 values. Packed nibbles: byte i holds value i in its low half, value i + 16 in its
// high half.

struct BlockQ4_0 {  // value = d * (q - 8)
  uint16_t d;
  uint8_t qs[16];
};
struct BlockQ4_1 {  // value = d * q + m
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
struct BlockQ5_0 {  // value = d * (q - 16); bit i of qh (little-endian) is bit 4 of value i
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ5_1 {  // value = d * q + m
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {  // value = d * q
  uint16_t d;
  int8_t qs[32];
};
struct BlockIQ4_NL {  // value = d * kIQ4Values[q]
  uint16_t d;
  uint8_t qs[16];
};
struct BlockMXFP4 {  // value = 2^(e - 128) * kMXFP4Values[q]
  uint8_t e;
  uint8_t qs[16];
};

// Types of 256 values in sub-blocks that have their own small integer scales.

struct BlockQ2_K {  // 16 sub-blocks of 16; value = d * (scale & 15) * q - dmin * (scale >> 4)
  uint8_t scales[16];
  uint8_t qs[64];  // byte i of each 32 holds value i of four consecutive runs of 32, low bits first
  uint16_t d;
  uint16_t dmin;
};
struct BlockQ3_K {     // 16 sub-blocks of 16; value = d * scale * (q - 4)
  uint8_t hmask[32];   // bit r of byte i: bit 2 of value i of run r (runs of 32)
  uint8_t qs[64];      // as in Q2_K
  uint8_t scales[12];  // Q3Scales unpacks them
  uint16_t d;
};
struct BlockQ4_K {  // 8 sub-blocks of 32; value = d * scale * q - dmin * min
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];  // ScaleMinAt unpacks them
  uint8_t qs[128];  // byte i of each 32: value i of an even run (low half) and the odd run after it
};
struct BlockQ5_K {  // as Q4_K with a fifth bit: bit r of qh[i] belongs to value i of run r
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
struct BlockQ6_K {  // 16 sub-blocks of 16; value = d * scale * (q - 32)
  uint8_t
      ql[128];  // of each half block 64 bytes: runs 0, 1 in the low, runs 2, 3 in the high nibbles
  uint8_t
      qh[64];  // of each half block 32 bytes: two bits for each of its four runs, low bits first
  int8_t scales[16];
  uint16_t d;
};
struct BlockIQ4_XS {  // 8 sub-blocks of 32; value = d * (scale - 32) * kIQ4Values[q]
  uint16_t d;
  uint16_t scales_h;    // upper two bits of each six-bit scale
  uint8_t scales_l[4];  // lower four bits
  uint8_t qs[128];      // sub-block by sub-block, nibbles as in the types of 32
};

struct BlockTQ1_0 {  // value = d * (q - 1), q three-valued: TernaryAt unpacks them
  uint8_t qs[48];    // five values a byte
  uint8_t qh[4];     // four values a byte
  uint16_t d;
};
struct BlockTQ2_0 {  // value = d * (q - 1), two bits each as in Q2_K
  uint8_t qs[64];
  uint16_t d;
};

// The types with codebooks (tensor/codebooks.h), whose vectors are four or eight values. "Signs of
// parity": seven bits, to which an eighth is added that makes the number of ones even.

struct BlockIQ1_S {  // 8 sub-blocks of 32; value = d * (2 scale + 1) * (level -1, 0 or 1 +- 1/8)
  uint16_t d;
  uint8_t qs[32];  // lower eight bits of the indices
  uint16_t qh[8];  // for each sub-block three bits more of four indices, scale, sign of the 1/8
};
struct BlockIQ1_M {  // 16 sub-blocks of 16; values as in IQ1_S
  uint8_t qs[32];
  uint8_t qh[16];     // a nibble for each index: three bits more of it, sign of the 1/8
  uint8_t scales[8];  // four words: four scales of three bits, and on top a quarter of d
};
struct BlockIQ2_XXS {  // 8 sub-blocks of 32; value = d * (2 scale + 1) / 8 * +-level
  uint16_t d;
  uint8_t qs[64];  // of each sub-block four indices, then 4 * 7 signs of parity and the scale
};
struct BlockIQ2_XS {  // 16 sub-blocks of 16; values as in IQ2_XXS
  uint16_t d;
  uint16_t qs[32];    // index in nine bits, signs of parity
  uint8_t scales[8];  // of neighbours, the first one in the low nibble
};
struct BlockIQ2_S {  // as IQ2_XS, with indices of ten bits
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];  // upper two bits of four indices
  uint8_t scales[8];
};
struct BlockIQ3_XXS {  // 8 sub-blocks of 32; value = d * (2 scale + 1) / 4 * +-level
  uint16_t d;
  uint8_t qs[64];
  uint8_t signs[32];  // of each sub-block 4 * 7 signs of parity and the scale
};
struct BlockIQ3_S {  // 8 sub-blocks of 32; value = d * (2 scale + 1) * +-level
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];  // the ninth bit of eight indices
  uint8_t signs[32];
  uint8_t scales[4];  // of neighbours, the first one in the low nibble
};

struct BlockNVFP4 {   // 4 sub-blocks of 16; value = scale / 2 * kMXFP4Values[q]
  uint8_t scales[4];  // NVFP4Scale reads them
  uint8_t qs[32];     // of each sub-block 8 bytes: value i in the low, i + 8 in the high half
};

static_assert(sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockMXFP4) == 17);
static_assert(sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);
static_assert(sizeof(BlockIQ4_XS) == 136);
static_assert(sizeof(BlockTQ1_0) == 54);
static_assert(sizeof(BlockTQ2_0) == 66);
static_assert(sizeof(BlockIQ1_S) == 50);
static_assert(sizeof(BlockIQ1_M) == 56);
static_assert(sizeof(BlockIQ2_XXS) == 66);
static_assert(sizeof(BlockIQ2_XS) == 74);
static_assert(sizeof(BlockIQ2_S) == 82);
static_assert(sizeof(BlockIQ3_XXS) == 98);
static_assert(sizeof(BlockIQ3_S) == 110);
static_assert(sizeof(BlockNVFP4) == 36);

// The sixteen unevenly spaced levels of IQ4_NL and IQ4_XS.
inline constexpr std::array<int8_t, 16> kIQ4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// The values of a 4-bit float with two exponent bits (E2M1), doubled so that they are integers.
// Code 8, minus zero, is read as plain zero.
inline constexpr std::array<int8_t, 16> kMXFP4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};

// All values of the codebook types, in eighths for IQ1: few enough for a nibble each.
inline constexpr std::array<int8_t, 16> kIQ1Values = {-9, -7, -1, 1, 7, 9};
inline constexpr std::array<int8_t, 16> kIQ2Values = {8, 25, 43, -8, -25, -43};
inline constexpr std::array<int8_t, 16> kIQ3_XXSValues = {4,  12,  20,  28,  36,  44,  52,  62,
                                                          -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr std::array<int8_t, 16> kIQ3_SValues = {1,  3,  5,  7,  9,  11,  13,  15,
                                                        -1, -3, -5, -7, -9, -11, -13, -15};

// The scale of an MXFP4 block for kMXFP4Values: 2^(e - 128), half of the E8M0 number. The two
// smallest are subnormal floats.
constexpr float MXFP4Scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x0020'0000u << e : static_cast<uint32_t>(e - 1) << 23);
}

// The scale of an NVFP4 sub-block for kMXFP4Values: half of an unsigned float of four exponent and
// three mantissa bits; what would be NaN is zero.
constexpr float NVFP4Scale(uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  if (bits == 0x7f) return 0;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10F;
  return static_cast<float>(8 + mantissa) * static_cast<float>(1 << exponent) * 0x1p-11F;
}

// Value 0 ... 255 of a TQ1_0 block, 0 ... 2. A byte is a fraction of 256 whose digits to base
// three are its values. The first 32 bytes hold five runs of 32, the next 16 five runs of 16, the
// last four four runs of 4.
constexpr int TernaryAt(const BlockTQ1_0& block, int i) {
  constexpr int kPowers[5] = {1, 3, 9, 27, 81};
  uint8_t byte = 0;
  int digit = 0;
  if (i < 160) {
    byte = block.qs[i % 32];
    digit = i / 32;
  } else if (i < 240) {
    byte = block.qs[32 + (i - 160) % 16];
    digit = (i - 160) / 16;
  } else {
    byte = block.qh[(i - 240) % 4];
    digit = (i - 240) / 4;
  }
  return (byte * kPowers[digit] % 256) * 3 / 256;
}

struct ScaleMin {
  uint8_t scale;  // 0 … 63
  uint8_t min;    // 0 … 63
};

// The scale and minimum of sub-block 0 … 7 of a Q4_K or Q5_K block. Bytes 0 … 3 hold the first four
// scales in six bits, 4 … 7 the first four minimums; the last four have their low nibbles in
// bytes 8 … 11 and their upper two bits on top of the first eight bytes.
constexpr ScaleMin ScaleMinAt(const uint8_t (&packed)[12], int sub_block) {
  if (sub_block < 4) {
    return {static_cast<uint8_t>(packed[sub_block] & 63),
            static_cast<uint8_t>(packed[sub_block + 4] & 63)};
  }
  const uint8_t low = packed[sub_block + 4];
  const int scale_high = packed[sub_block - 4] >> 6;
  const int min_high = packed[sub_block] >> 6;
  return {static_cast<uint8_t>((low & 15) | (scale_high << 4)),
          static_cast<uint8_t>((low >> 4) | (min_high << 4))};
}

// The sixteen signed scales (-32 … 31) of a Q3_K block. Bytes 0 … 7 hold the low nibbles of scales
// 0 … 7 and 8 … 15, byte 8 + k the upper two bits of scales k, k + 4, k + 8, k + 12.
constexpr std::array<int8_t, 16> Q3Scales(const uint8_t (&packed)[12]) {
  std::array<int8_t, 16> scales{};
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
    const int high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
    scales[static_cast<size_t>(i)] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
  return scales;
}

// The signed scale (-32 … 31) of sub-block 0 … 7 of an IQ4_XS block.
constexpr int IQ4_XSScaleAt(const BlockIQ4_XS& block, int sub_block) {
  const int low = (block.scales_l[sub_block / 2] >> (4 * (sub_block % 2))) & 15;
  const int high = (block.scales_h >> (2 * sub_block)) & 3;
  return (low | (high << 4)) - 32;
}

}  // namespace remontoir
