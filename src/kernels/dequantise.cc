// Scalar dequantisation, one function a block type; formulas stand beside the structs they read.
#include "kernels/dequantise.h"

#include <cstring>

#include "base/check.h"
#include "kernels/codebook_block.h"
#include "tensor/block_layouts.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

// Blocks lie unaligned in files, so each is copied to a local one first.
template <class Block>
void Decode(const std::byte* blocks, int64_t elements, float* out, int block_elements,
            void (*decode_block)(const Block&, float*)) {
  for (int64_t done = 0; done < elements; done += block_elements) {
    Block block;
    std::memcpy(&block, blocks, sizeof(Block));
    decode_block(block, out + done);
    blocks += sizeof(Block);
  }
}

void DecodeF16(const uint16_t& value, float* out) { *out = HalfToFloat(value); }

void DecodeBF16(const uint16_t& value, float* out) { *out = Bf16ToFloat(value); }

void DecodeQ4_0(const BlockQ4_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.qs[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) - 8);
  }
}

void DecodeQ4_1(const BlockQ4_1& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block.qs[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(block.qs[i] >> 4) + m;
  }
}

// Value i of a Q5_0 or Q5_1 block, 0 … 31.
int FiveBitValue(const uint8_t (&qs)[16], const uint8_t (&qh)[4], int i) {
  const int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
  const int high = (qh[i / 8] >> (i % 8)) & 1;
  return low | (high << 4);
}

void DecodeQ5_0(const BlockQ5_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(FiveBitValue(block.qs, block.qh, i) - 16);
  }
}

void DecodeQ5_1(const BlockQ5_1& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(FiveBitValue(block.qs, block.qh, i)) + m;
  }
}

void DecodeQ8_0(const BlockQ8_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

// Value i of a Q2_K block, 0 … 3; the low two bits of a Q3_K value lie the same way.
int TwoBitValue(const uint8_t (&qs)[64], int i) {
  const int run = i / 32;
  return (qs[run / 4 * 32 + i % 32] >> (2 * (run % 4))) & 3;
}

void DecodeQ2_K(const BlockQ2_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float dmin = HalfToFloat(block.dmin);
  for (int sub = 0; sub < 16; ++sub) {
    const float scale = d * static_cast<float>(block.scales[sub] & 15);
    const float min = dmin * static_cast<float>(block.scales[sub] >> 4);
    for (int i = sub * 16; i < sub * 16 + 16; ++i) {
      out[i] = scale * static_cast<float>(TwoBitValue(block.qs, i)) - min;
    }
  }
}

void DecodeQ3_K(const BlockQ3_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const auto scales = Q3Scales(block.scales);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(scales[static_cast<size_t>(i / 16)]);
    const int high = (block.hmask[i % 32] >> (i / 32)) & 1;
    out[i] = scale * static_cast<float>((TwoBitValue(block.qs, i) | (high << 2)) - 4);
  }
}

// Value i of a Q4_K block, 0 … 15; the low four bits of a Q5_K value lie the same way.
int FourBitValue(const uint8_t (&qs)[128], int i) {
  const int run = i / 32;
  return (qs[run / 2 * 32 + i % 32] >> (4 * (run % 2))) & 15;
}

void DecodeQ4_K(const BlockQ4_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float dmin = HalfToFloat(block.dmin);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = ScaleMinAt(block.scales, sub);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    for (int i = sub * 32; i < sub * 32 + 32; ++i) {
      out[i] = scale * static_cast<float>(FourBitValue(block.qs, i)) - min;
    }
  }
}

void DecodeQ5_K(const BlockQ5_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float dmin = HalfToFloat(block.dmin);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = ScaleMinAt(block.scales, sub);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    for (int i = sub * 32; i < sub * 32 + 32; ++i) {
      const int high = (block.qh[i % 32] >> sub) & 1;
      out[i] = scale * static_cast<float>(FourBitValue(block.qs, i) | (high << 4)) - min;
    }
  }
}

void DecodeQ6_K(const BlockQ6_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int run = i % 128 / 32;
    const int low = (block.ql[half * 64 + run % 2 * 32 + i % 32] >> (run / 2 * 4)) & 15;
    const int high = (block.qh[half * 32 + i % 32] >> (2 * run)) & 3;
    const int8_t scale = block.scales[i / 16];
    out[i] = d * static_cast<float>(scale) * static_cast<float>((low | (high << 4)) - 32);
  }
}

// Sixteen bytes as 32 levels of a table, times a scale: IQ4_NL, a sub-block of IQ4_XS, MXFP4.
void DecodeLevels(const std::array<int8_t, 16>& levels, float scale, const uint8_t* qs,
                  float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(levels[qs[i] & 15]);
    out[i + 16] = scale * static_cast<float>(levels[qs[i] >> 4]);
  }
}

void DecodeIQ4_NL(const BlockIQ4_NL& block, float* out) {
  DecodeLevels(kIQ4Values, HalfToFloat(block.d), block.qs, out);
}

void DecodeIQ4_XS(const BlockIQ4_XS& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int sub = 0; sub < 8; ++sub) {
    const float scale = d * static_cast<float>(IQ4_XSScaleAt(block, sub));
    DecodeLevels(kIQ4Values, scale, block.qs + sub * 16, out + sub * 32);
  }
}

void DecodeMXFP4(const BlockMXFP4& block, float* out) {
  DecodeLevels(kMXFP4Values, MXFP4Scale(block.e), block.qs, out);
}

void DecodeNVFP4(const BlockNVFP4& block, float* out) {
  for (int i = 0; i < 64; ++i) {
    const uint8_t byte = block.qs[i / 16 * 8 + i % 8];
    const int q = i % 16 < 8 ? byte & 15 : byte >> 4;
    out[i] =
        NVFP4Scale(block.scales[i / 16]) * static_cast<float>(kMXFP4Values[static_cast<size_t>(q)]);
  }
}

void DecodeTQ1_0(const BlockTQ1_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 256; ++i) out[i] = d * static_cast<float>(TernaryAt(block, i) - 1);
}

void DecodeTQ2_0(const BlockTQ2_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 256; ++i) out[i] = d * static_cast<float>(TwoBitValue(block.qs, i) - 1);
}

template <class Block>
void DecodeCodebook(const Block& block, float d, float factor, float* out) {
  for (size_t run = 0; run < 8; ++run) {
    const CodebookRun decoded = DecodeCodebookRun(block, run);
    for (size_t i = 0; i < 32; ++i) {
      const float scale = d * factor * static_cast<float>(decoded.steps[i / 16]);
      out[32 * run + i] = scale * static_cast<float>(decoded.q[i]);
    }
  }
}

void DecodeIQ1_S(const BlockIQ1_S& block, float* out) {
  DecodeCodebook(block, HalfToFloat(block.d), kEighth, out);
}

void DecodeIQ1_M(const BlockIQ1_M& block, float* out) {
  DecodeCodebook(block, HalfToFloat(IQ1_MScaleBits(block)), kEighth, out);
}

void DecodeIQ2_XXS(const BlockIQ2_XXS& block, float* out) {
  DecodeCodebook(block, HalfToFloat(block.d), kEighth, out);
}

void DecodeIQ2_XS(const BlockIQ2_XS& block, float* out) {
  DecodeCodebook(block, HalfToFloat(block.d), kEighth, out);
}

void DecodeIQ2_S(const BlockIQ2_S& block, float* out) {
  DecodeCodebook(block, HalfToFloat(block.d), kEighth, out);
}

void DecodeIQ3_XXS(const BlockIQ3_XXS& block, float* out) {
  DecodeCodebook(block, HalfToFloat(block.d), kQuarter, out);
}

void DecodeIQ3_S(const BlockIQ3_S& block, float* out) {
  DecodeCodebook(block, HalfToFloat(block.d), 1, out);
}

}  // namespace

void DequantiseRow(DType type, const std::byte* blocks, int64_t elements, float* out) {
  const int block_elements = Info(type).block_elements;
  REM_CHECK(elements % block_elements == 0, "a row is a whole number of blocks");
  const auto decode = [&](auto decode_block) {
    Decode(blocks, elements, out, block_elements, decode_block);
  };
  switch (type) {
    case DType::kF32:
      std::memcpy(out, blocks, static_cast<size_t>(elements) * sizeof(float));
      return;
    case DType::kF16: return decode(DecodeF16);
    case DType::kBF16: return decode(DecodeBF16);
    case DType::kQ4_0: return decode(DecodeQ4_0);
    case DType::kQ4_1: return decode(DecodeQ4_1);
    case DType::kQ5_0: return decode(DecodeQ5_0);
    case DType::kQ5_1: return decode(DecodeQ5_1);
    case DType::kQ8_0: return decode(DecodeQ8_0);
    case DType::kQ2_K: return decode(DecodeQ2_K);
    case DType::kQ3_K: return decode(DecodeQ3_K);
    case DType::kQ4_K: return decode(DecodeQ4_K);
    case DType::kQ5_K: return decode(DecodeQ5_K);
    case DType::kQ6_K: return decode(DecodeQ6_K);
    case DType::kIQ4_NL: return decode(DecodeIQ4_NL);
    case DType::kIQ4_XS: return decode(DecodeIQ4_XS);
    case DType::kMXFP4: return decode(DecodeMXFP4);
    case DType::kTQ1_0: return decode(DecodeTQ1_0);
    case DType::kTQ2_0: return decode(DecodeTQ2_0);
    case DType::kIQ1_S: return decode(DecodeIQ1_S);
    case DType::kIQ1_M: return decode(DecodeIQ1_M);
    case DType::kIQ2_XXS: return decode(DecodeIQ2_XXS);
    case DType::kIQ2_XS: return decode(DecodeIQ2_XS);
    case DType::kIQ2_S: return decode(DecodeIQ2_S);
    case DType::kIQ3_XXS: return decode(DecodeIQ3_XXS);
    case DType::kIQ3_S: return decode(DecodeIQ3_S);
    case DType::kNVFP4: return decode(DecodeNVFP4);
  }
}

}  // namespace remontoir
