// Sparse attention with AVX2, FMA and F16C.
#include "kernels/byte_words_avx2.h"
#include "kernels/estimate_kernel.h"
#include "kernels/install.h"
#include "kernels/load_kv_kernel.h"
#include "kernels/panel_attention_kernel.h"
#include "kernels/sparse_kernel.h"

namespace remontoir {

void InstallAvx2Sparse(KernelTable* table) {
  SparseKernel<Avx2Words>::Install(table);
  EstimateKernel<Avx2ByteWords>::Install(table);
  PanelAttentionKernel<Avx2Words>::Install(table);
  LoadKvKernel<Avx2Words>::Install(table);
}

}  // namespace remontoir
