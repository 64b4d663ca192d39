// Indices to vectors, signs and scales; the bits' places stand beside the structs they are in.
#include "kernels/codebook_block.h"

#include <bit>
#include <cstring>

#include "tensor/codebooks.h"

namespace remontoir {
namespace {

constexpr int kVectorsPerRun = 4;  // of eight values

int8_t StepsOf(unsigned scale) { return static_cast<int8_t>(2 * scale + 1); }

// The sign bits that seven bits of a file stand for.
unsigned WithParity(unsigned bits) {
  return bits | (static_cast<unsigned>(std::popcount(bits)) & 1) << 7;
}

int8_t Signed(int8_t level, unsigned signs, unsigned i) {
  return (signs >> i & 1) != 0 ? static_cast<int8_t>(-level) : level;
}

// Eight levels of 8, 25 and 43.
void SetEight(unsigned vector, unsigned signs, int8_t* q) {
  for (unsigned i = 0; i < 8; ++i) q[i] = Signed(kIQ2Values[vector >> 2 * i & 3], signs, i);
}

// Twice four levels of a table of eight magnitudes.
void SetTwiceFour(unsigned first, unsigned second, const std::array<int8_t, 16>& levels,
                  unsigned signs, int8_t* q) {
  for (unsigned i = 0; i < 4; ++i) {
    q[i] = Signed(levels[first >> 4 * i & 7], signs, i);
    q[i + 4] = Signed(levels[second >> 4 * i & 7], signs, i + 4);
  }
}

// Eight of -1, 0, 1, each an eighth more or less, in eighths.
void SetTernary(unsigned vector, bool less, int8_t* q) {
  for (unsigned i = 0; i < 8; ++i) {
    const int level = static_cast<int>(vector >> 2 * i & 3) - 1;
    q[i] = static_cast<int8_t>(8 * level + (less ? -1 : 1));
  }
}

uint32_t LoadWord(const uint8_t* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

unsigned Nibble(const uint8_t* bytes, size_t i) {
  return static_cast<unsigned>(bytes[i / 2]) >> 4 * (i % 2) & 15;
}

unsigned HalfWord(const uint8_t* bytes, size_t i) {
  return static_cast<unsigned>(bytes[2 * i]) | static_cast<unsigned>(bytes[2 * i + 1]) << 8;
}

}  // namespace

CodebookRun DecodeCodebookRun(const BlockIQ1_S& block, size_t run) {
  CodebookRun out;
  const unsigned high = block.qh[run];
  out.steps.fill(StepsOf(high >> 12 & 7));
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    const unsigned index = block.qs[4 * run + v] | (high >> 3 * v & 7) << 8;
    SetTernary(kIQ1Codebook[index], (high & 0x8000) != 0, &out.q[8 * v]);
  }
  return out;
}

CodebookRun DecodeCodebookRun(const BlockIQ1_M& block, size_t run) {
  CodebookRun out;
  for (size_t half = 0; half < 2; ++half) {
    const size_t sub = 2 * run + half;
    out.steps[half] = StepsOf(HalfWord(block.scales, sub / 4) >> 3 * (sub % 4) & 7);
  }
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    const unsigned high = Nibble(block.qh, 4 * run + v);
    const unsigned index = block.qs[4 * run + v] | (high & 7) << 8;
    SetTernary(kIQ1Codebook[index], (high & 8) != 0, &out.q[8 * v]);
  }
  return out;
}

CodebookRun DecodeCodebookRun(const BlockIQ2_XXS& block, size_t run) {
  CodebookRun out;
  const uint8_t* indices = block.qs + 8 * run;
  const uint32_t signs = LoadWord(indices + 4);
  out.steps.fill(StepsOf(signs >> 28));
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    SetEight(kIQ2_XXSCodebook[indices[v]], WithParity(signs >> 7 * v & 127), &out.q[8 * v]);
  }
  return out;
}

CodebookRun DecodeCodebookRun(const BlockIQ2_XS& block, size_t run) {
  CodebookRun out;
  for (size_t half = 0; half < 2; ++half) {
    out.steps[half] = StepsOf(Nibble(block.scales, 2 * run + half));
  }
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    const unsigned q = block.qs[4 * run + v];
    SetEight(kIQ2_XSCodebook[q & 511], WithParity(q >> 9), &out.q[8 * v]);
  }
  return out;
}

CodebookRun DecodeCodebookRun(const BlockIQ2_S& block, size_t run) {
  CodebookRun out;
  for (size_t half = 0; half < 2; ++half) {
    out.steps[half] = StepsOf(Nibble(block.scales, 2 * run + half));
  }
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    const unsigned high = static_cast<unsigned>(block.qh[run]) >> 2 * v & 3;
    const unsigned index = block.qs[4 * run + v] | high << 8;
    SetEight(kIQ2_SCodebook[index], block.signs[4 * run + v], &out.q[8 * v]);
  }
  return out;
}

CodebookRun DecodeCodebookRun(const BlockIQ3_XXS& block, size_t run) {
  CodebookRun out;
  const uint32_t signs = LoadWord(block.signs + 4 * run);
  out.steps.fill(StepsOf(signs >> 28));
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    const uint8_t* indices = block.qs + 8 * run + 2 * v;
    SetTwiceFour(kIQ3_XXSCodebook[indices[0]], kIQ3_XXSCodebook[indices[1]], kIQ3_XXSValues,
                 WithParity(signs >> 7 * v & 127), &out.q[8 * v]);
  }
  return out;
}

CodebookRun DecodeCodebookRun(const BlockIQ3_S& block, size_t run) {
  CodebookRun out;
  out.steps.fill(StepsOf(Nibble(block.scales, run)));
  const unsigned high = block.qh[run];
  for (size_t v = 0; v < kVectorsPerRun; ++v) {
    const uint8_t* indices = block.qs + 8 * run + 2 * v;
    const unsigned first = indices[0] | (high >> 2 * v & 1) << 8;
    const unsigned second = indices[1] | (high >> (2 * v + 1) & 1) << 8;
    SetTwiceFour(kIQ3_SCodebook[first], kIQ3_SCodebook[second], kIQ3_SValues,
                 block.signs[4 * run + v], &out.q[8 * v]);
  }
  return out;
}

uint16_t IQ1_MScaleBits(const BlockIQ1_M& block) {
  unsigned bits = 0;
  for (size_t word = 0; word < 4; ++word) {
    bits |= (HalfWord(block.scales, word) >> 12) << 4 * word;
  }
  return static_cast<uint16_t>(bits);
}

}  // namespace remontoir
