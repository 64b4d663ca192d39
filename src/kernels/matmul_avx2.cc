// Matrix products with AVX2, FMA and F16C.
#include "kernels/byte_words_avx2.h"
#include "kernels/install.h"
#include "kernels/matmul_float.h"
#include "kernels/matmul_unpacked.h"

namespace remontoir {
namespace {

using Words = Avx2ByteWords;
using Ints = Words::Ints;

Ints MultiplyPairs(Ints weights, __m256i four) {
  return {_mm256_maddubs_epi16(weights.low, four), _mm256_maddubs_epi16(weights.high, four)};
}
Ints AddPairs(Ints a, Ints b) {
  return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)};
}
// Whole numbers may be added in any order, and the compiler likes trees of them: those need more
// registers than there are. To it, what this has touched is no sum any more.
void KeepOrder(Ints& x) { asm("" : "+x"(x.low), "+x"(x.high)); }
// Neighbouring 16-bit sums joined in 32 bits.
Ints Join(Ints pairs) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(pairs.low, ones), _mm256_madd_epi16(pairs.high, ones)};
}

// Groups whose sums fit 16 bits, whatever their values are.
template <class Format>
constexpr int kFitting = 32767 / (2 * 127 * Format::kQuantMax);

// Without dot products of bytes: pairs of products in 16 bits.
struct PairsBlock {
  // Sums of all groups in 16 bits leave room for one more row.
  template <class Format>
  static constexpr int kTileRows =
      !Format::kSigned && kFitting<Format> >= 8 / Format::kSubBlocks ? 5 : 4;
  // Unpacking pays from so many rows on: sooner where there is more to it than a mask.
  template <class Format>
  static constexpr int kUnpackRowsMin = Format::kHighBits > 0 ? 8 : 16;

  template <class Format, int kSub, int kRows>
  static void Products(const std::byte* quants, const ActivationBlock* const (&in)[kRows],
                       Ints (&products)[kRows]) {
    if constexpr (Format::kSigned) {
      Signed<Format, kSub>(quants, in, products);
    } else {
      Unsigned<Format, kSub>(quants, in, products);
    }
  }

 private:
  // As many groups are added in 16 bits as fit.
  template <class Format, int kSub, int kRows>
  static void Unsigned(const std::byte* quants, const ActivationBlock* const (&in)[kRows],
                       Ints (&products)[kRows]) {
    constexpr int kGroups = 8 / Format::kSubBlocks;
    constexpr int kRun = kFitting<Format> >= kGroups ? kGroups : kFitting<Format> >= 4 ? 4 : 2;
#pragma GCC unroll 8
    for (int begin = 0; begin < kGroups; begin += kRun) {
      Ints pairs[kRows];
#pragma GCC unroll 8
      for (int i = begin; i < begin + kRun; ++i) {
        const int g = Format::Group(kSub * kGroups + i);
        const Ints weights = LoadQuants<Words, Format>(quants, g);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Ints pair = MultiplyPairs(weights, Words::SetFour(in[r]->q + 4 * g));
          pairs[r] = i == begin ? pair : AddPairs(pairs[r], pair);
          KeepOrder(pairs[r]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Ints sum = begin == 0 ? StartProducts<Words, Format, kSub>(*in[r]) : products[r];
        products[r] = Words::AddInts(sum, Join(pairs[r]));
      }
    }
  }

  // |w| times the activation with w's sign. A pair reaches 2 * 128 * 127, so each goes to 32 bits
  // at once.
  template <class Format, int kSub, int kRows>
  static void Signed(const std::byte* quants, const ActivationBlock* const (&in)[kRows],
                     Ints (&products)[kRows]) {
    constexpr int kGroups = 8 / Format::kSubBlocks;
#pragma GCC unroll 8
    for (int g = kSub * kGroups; g < (kSub + 1) * kGroups; ++g) {
      const Ints weights = LoadQuants<Words, Format>(quants, g);
      const __m256i low = _mm256_abs_epi8(weights.low);
      const __m256i high = _mm256_abs_epi8(weights.high);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256i four = Words::SetFour(in[r]->q + 4 * g);
        const Ints pairs = {_mm256_maddubs_epi16(low, _mm256_sign_epi8(four, weights.low)),
                            _mm256_maddubs_epi16(high, _mm256_sign_epi8(four, weights.high))};
        products[r] = g == kSub * kGroups ? Join(pairs) : Words::AddInts(products[r], Join(pairs));
      }
    }
  }
};

}  // namespace

void InstallAvx2Products(KernelTable* table) {
  FloatProducts<Words>::Install(table);
  UnpackedProducts<Words, PairsBlock>::Install(table);
}

}  // namespace remontoir
