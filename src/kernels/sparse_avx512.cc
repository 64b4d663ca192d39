// Sparse attention with AVX-512.
#include "kernels/byte_words_avx512.h"
#include "kernels/estimate_kernel.h"
#include "kernels/install.h"
#include "kernels/load_kv_kernel.h"
#include "kernels/panel_attention_kernel.h"
#include "kernels/sparse_kernel.h"

namespace remontoir {
inline namespace REM_WORDS {

void InstallAvx512Sparse(KernelTable* table) {
  SparseKernel<Avx512Words>::Install(table);
  EstimateKernel<Avx512ByteWords>::Install(table);
  PanelAttentionKernel<Avx512Words>::Install(table);
  LoadKvKernel<Avx512Words>::Install(table);
}

}  // namespace REM_WORDS
}  // namespace remontoir
