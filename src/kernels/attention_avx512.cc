// Attention with AVX-512.
#include "kernels/attention_kernel.h"
#include "kernels/install.h"
#include "kernels/words_avx512.h"

namespace remontoir {
inline namespace REM_WORDS {
namespace {

// Fewer rows than this are bound by loading and widening keys, which processors that run AVX-512
// in two halves do faster as AVX2 does it (Zen 4: 1.4 times with one row, 1.1 with three; Zen 5 the
// other way around, 1.25 times). Both do the same arithmetic.
constexpr int kRowsMin = 4;

// The AVX2 kernels where AVX-512 runs in halves; else null.
const KernelTable* KernelsOfFewRows() {
  return __builtin_cpu_is("amdfam19h") != 0 ? Avx2Kernels() : nullptr;
}

template <DType kType>
void Partial(const AttentionPartial& partial) {
  if (partial.row_count < kRowsMin) {
    // Asking the processor what it has costs microseconds under a hypervisor: once.
    static const KernelTable* const avx2 = KernelsOfFewRows();
    if (avx2 != nullptr) return avx2->attention_partial[static_cast<size_t>(kType)](partial);
  }
  AttentionKernel<Avx512Words>::Partial<kType>(partial);
}

}  // namespace

void InstallAvx512Attention(KernelTable* table) {
  AttentionKernel<Avx512Words>::Install(table);
  table->attention_partial[static_cast<size_t>(DType::kF32)] = &Partial<DType::kF32>;
  table->attention_partial[static_cast<size_t>(DType::kF16)] = &Partial<DType::kF16>;
  table->attention_partial[static_cast<size_t>(DType::kBF16)] = &Partial<DType::kBF16>;
  table->attention_partial[static_cast<size_t>(DType::kQ8_0)] = &Partial<DType::kQ8_0>;
}

}  // namespace REM_WORDS
}  // namespace remontoir
