// Reads the quantised block types of GGUF as whole numbers with scales, 32 weights at a time.
#include "kernels/weight_block.h"

#include <cstring>

#include "base/check.h"
#include "kernels/codebook_block.h"
#include "tensor/block_layouts.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

template <class Block>
Block Load(const std::byte* row, int64_t index) {
  Block block;  // blocks lie unaligned in files
  std::memcpy(&block, row + index * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
  return block;
}

void SetScale(WeightBlock* out, float scale, float minimum) {
  out->scale.fill(scale);
  out->minimum.fill(minimum);
}

// Minimums of types that store them; others follow their scales.
void SetSteps(WeightBlock* out, size_t half, int scale, int minimum) {
  out->scale_steps[half] = static_cast<int8_t>(scale);
  out->minimum_steps[half] = static_cast<int8_t>(minimum);
  out->scale[half] = out->step * static_cast<float>(scale);
  out->minimum[half] = out->minimum_step * static_cast<float>(minimum);
}

void SetNibbles(WeightBlock* out, const uint8_t* qs) {
  for (size_t i = 0; i < 16; ++i) {
    out->q[i] = static_cast<int8_t>(qs[i] & 15);
    out->q[i + 16] = static_cast<int8_t>(qs[i] >> 4);
  }
}

void AddFifthBits(WeightBlock* out, const uint8_t (&qh)[4]) {
  for (size_t i = 0; i < 32; ++i) {
    out->q[i] = static_cast<int8_t>(out->q[i] | (((qh[i / 8] >> (i % 8)) & 1) << 4));
  }
}

void LookUpNibbles(WeightBlock* out, const uint8_t* qs, const std::array<int8_t, 16>& values) {
  for (size_t i = 0; i < 16; ++i) {
    out->q[i] = values[qs[i] & 15];
    out->q[i + 16] = values[qs[i] >> 4];
  }
}

void Decode(const BlockQ4_0& block, WeightBlock* out) {
  const float d = HalfToFloat(block.d);
  SetNibbles(out, block.qs);
  SetScale(out, d, -8 * d);
}

void Decode(const BlockQ4_1& block, WeightBlock* out) {
  SetNibbles(out, block.qs);
  SetScale(out, HalfToFloat(block.d), HalfToFloat(block.m));
}

void Decode(const BlockQ5_0& block, WeightBlock* out) {
  const float d = HalfToFloat(block.d);
  SetNibbles(out, block.qs);
  AddFifthBits(out, block.qh);
  SetScale(out, d, -16 * d);
}

void Decode(const BlockQ5_1& block, WeightBlock* out) {
  SetNibbles(out, block.qs);
  AddFifthBits(out, block.qh);
  SetScale(out, HalfToFloat(block.d), HalfToFloat(block.m));
}

void Decode(const BlockQ8_0& block, WeightBlock* out) {
  std::memcpy(out->q.data(), block.qs, 32);
  SetScale(out, HalfToFloat(block.d), 0);
}

void Decode(const BlockIQ4_NL& block, WeightBlock* out) {
  LookUpNibbles(out, block.qs, kIQ4Values);
  SetScale(out, HalfToFloat(block.d), 0);
}

void Decode(const BlockMXFP4& block, WeightBlock* out) {
  LookUpNibbles(out, block.qs, kMXFP4Values);
  SetScale(out, MXFP4Scale(block.e), 0);
}

// The types of 256: `run` is the run of 32, 0 ... 7.

void DecodeRun(const BlockQ2_K& block, size_t run, WeightBlock* out) {
  const uint8_t* qs = block.qs + 32 * (run / 4);
  for (size_t i = 0; i < 32; ++i) {
    out->q[i] = static_cast<int8_t>((qs[i] >> (2 * (run % 4))) & 3);
  }
  out->step = HalfToFloat(block.d);
  out->minimum_step = -HalfToFloat(block.dmin);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t packed = block.scales[2 * run + half];
    SetSteps(out, half, packed & 15, packed >> 4);
  }
}

void DecodeRun(const BlockQ3_K& block, size_t run, WeightBlock* out) {
  const uint8_t* qs = block.qs + 32 * (run / 4);
  for (size_t i = 0; i < 32; ++i) {
    const int low = (qs[i] >> (2 * (run % 4))) & 3;
    const int high = (block.hmask[i] >> run) & 1;
    out->q[i] = static_cast<int8_t>(low | (high << 2));
  }
  const std::array<int8_t, 16> scales = Q3Scales(block.scales);
  out->step = HalfToFloat(block.d);
  for (size_t half = 0; half < 2; ++half) {
    SetSteps(out, half, scales[2 * run + half], 0);
    out->minimum[half] = -4 * out->scale[half];
  }
}

template <class Block>
void DecodeScaleMinRun(const Block& block, size_t run, WeightBlock* out) {
  const uint8_t* qs = block.qs + 32 * (run / 2);
  for (size_t i = 0; i < 32; ++i) {
    out->q[i] = static_cast<int8_t>(run % 2 == 0 ? qs[i] & 15 : qs[i] >> 4);
  }
  const ScaleMin packed = ScaleMinAt(block.scales, static_cast<int>(run));
  out->step = HalfToFloat(block.d);
  out->minimum_step = -HalfToFloat(block.dmin);
  for (size_t half = 0; half < 2; ++half) SetSteps(out, half, packed.scale, packed.min);
}

void DecodeRun(const BlockQ4_K& block, size_t run, WeightBlock* out) {
  DecodeScaleMinRun(block, run, out);
}

void DecodeRun(const BlockQ5_K& block, size_t run, WeightBlock* out) {
  DecodeScaleMinRun(block, run, out);
  for (size_t i = 0; i < 32; ++i) {
    out->q[i] = static_cast<int8_t>(out->q[i] | (((block.qh[i] >> run) & 1) << 4));
  }
}

void DecodeRun(const BlockQ6_K& block, size_t run, WeightBlock* out) {
  const size_t half_block = run / 4;
  const size_t part = run % 4;
  const uint8_t* ql = block.ql + 64 * half_block + 32 * (part % 2);
  const uint8_t* qh = block.qh + 32 * half_block;
  for (size_t i = 0; i < 32; ++i) {
    const int low = part < 2 ? ql[i] & 15 : ql[i] >> 4;
    const int high = (qh[i] >> (2 * part)) & 3;
    out->q[i] = static_cast<int8_t>(low | (high << 4));
  }
  out->step = HalfToFloat(block.d);
  for (size_t half = 0; half < 2; ++half) {
    SetSteps(out, half, block.scales[2 * run + half], 0);
    out->minimum[half] = -32 * out->scale[half];
  }
}

void DecodeRun(const BlockIQ4_XS& block, size_t run, WeightBlock* out) {
  LookUpNibbles(out, block.qs + 16 * run, kIQ4Values);
  const int scale = IQ4_XSScaleAt(block, static_cast<int>(run));
  out->step = HalfToFloat(block.d);
  for (size_t half = 0; half < 2; ++half) SetSteps(out, half, scale, 0);
  out->minimum.fill(0);
}

// Ternary weights as the nibbles of Q4_0: q - 8 is -1 ... 2.
void SetTernary(WeightBlock* out, uint16_t scale) {
  const float d = HalfToFloat(scale);
  SetScale(out, d, -8 * d);
}

void DecodeRun(const BlockTQ1_0& block, size_t run, WeightBlock* out) {
  for (size_t i = 0; i < 32; ++i) {
    out->q[i] = static_cast<int8_t>(TernaryAt(block, static_cast<int>(32 * run + i)) + 7);
  }
  SetTernary(out, block.d);
}

void DecodeRun(const BlockTQ2_0& block, size_t run, WeightBlock* out) {
  const uint8_t* qs = block.qs + 32 * (run / 4);
  for (size_t i = 0; i < 32; ++i) {
    out->q[i] = static_cast<int8_t>(((qs[i] >> (2 * (run % 4))) & 3) + 7);
  }
  SetTernary(out, block.d);
}

uint16_t ScaleBits(const BlockIQ1_M& block) { return IQ1_MScaleBits(block); }
template <class Block>
uint16_t ScaleBits(const Block& block) {
  return block.d;
}

template <class Block>
void DecodeCodebook(const std::byte* row, int64_t index, float factor, WeightBlock* out) {
  const auto block = Load<Block>(row, index / 8);
  const CodebookRun run = DecodeCodebookRun(block, static_cast<size_t>(index % 8));
  out->q = run.q;
  out->step = HalfToFloat(ScaleBits(block));
  for (size_t half = 0; half < 2; ++half) {
    SetSteps(out, half, run.steps[half], 0);
    out->scale[half] *= factor;
  }
  out->minimum.fill(0);
}

void DecodeNVFP4(const std::byte* row, int64_t index, WeightBlock* out) {
  const auto block = Load<BlockNVFP4>(row, index / 2);
  const auto first = 2 * static_cast<size_t>(index % 2);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* qs = block.qs + 8 * (first + half);
    for (size_t i = 0; i < 8; ++i) {
      out->q[16 * half + i] = kMXFP4Values[qs[i] & 15];
      out->q[16 * half + i + 8] = kMXFP4Values[qs[i] >> 4];
    }
    out->scale[half] = NVFP4Scale(block.scales[first + half]);
  }
  out->minimum.fill(0);
}

template <class Block>
void DecodeWhole(const std::byte* row, int64_t index, WeightBlock* out) {
  Decode(Load<Block>(row, index), out);
}

template <class Block>
void DecodePart(const std::byte* row, int64_t index, WeightBlock* out) {
  DecodeRun(Load<Block>(row, index / 8), static_cast<size_t>(index % 8), out);
}

}  // namespace

void DecodeWeightBlock(DType type, const std::byte* row, int64_t index, WeightBlock* out) {
  out->step = 0;
  out->minimum_step = 0;
  out->scale_steps.fill(0);
  out->minimum_steps.fill(0);
  switch (type) {
    case DType::kQ4_0: return DecodeWhole<BlockQ4_0>(row, index, out);
    case DType::kQ4_1: return DecodeWhole<BlockQ4_1>(row, index, out);
    case DType::kQ5_0: return DecodeWhole<BlockQ5_0>(row, index, out);
    case DType::kQ5_1: return DecodeWhole<BlockQ5_1>(row, index, out);
    case DType::kQ8_0: return DecodeWhole<BlockQ8_0>(row, index, out);
    case DType::kIQ4_NL: return DecodeWhole<BlockIQ4_NL>(row, index, out);
    case DType::kMXFP4: return DecodeWhole<BlockMXFP4>(row, index, out);
    case DType::kQ2_K: return DecodePart<BlockQ2_K>(row, index, out);
    case DType::kQ3_K: return DecodePart<BlockQ3_K>(row, index, out);
    case DType::kQ4_K: return DecodePart<BlockQ4_K>(row, index, out);
    case DType::kQ5_K: return DecodePart<BlockQ5_K>(row, index, out);
    case DType::kQ6_K: return DecodePart<BlockQ6_K>(row, index, out);
    case DType::kIQ4_XS: return DecodePart<BlockIQ4_XS>(row, index, out);
    case DType::kTQ1_0: return DecodePart<BlockTQ1_0>(row, index, out);
    case DType::kTQ2_0: return DecodePart<BlockTQ2_0>(row, index, out);
    case DType::kIQ1_S: return DecodeCodebook<BlockIQ1_S>(row, index, kEighth, out);
    case DType::kIQ1_M: return DecodeCodebook<BlockIQ1_M>(row, index, kEighth, out);
    case DType::kIQ2_XXS: return DecodeCodebook<BlockIQ2_XXS>(row, index, kEighth, out);
    case DType::kIQ2_XS: return DecodeCodebook<BlockIQ2_XS>(row, index, kEighth, out);
    case DType::kIQ2_S: return DecodeCodebook<BlockIQ2_S>(row, index, kEighth, out);
    case DType::kIQ3_XXS: return DecodeCodebook<BlockIQ3_XXS>(row, index, kQuarter, out);
    case DType::kIQ3_S: return DecodeCodebook<BlockIQ3_S>(row, index, 1, out);
    case DType::kNVFP4: return DecodeNVFP4(row, index, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: break;
  }
  REM_CHECK(false, "float rows have no quantised blocks");
}

}  // namespace remontoir
