// Sparse attention with AVX2, FMA and F16C.
#include "kernels/install.h"
#include "kernels/load_kv_kernel.h"
#include "kernels/panel_attention_kernel.h"
#include "kernels/sparse_kernel.h"
#include "kernels/words_avx2.h"

namespace remontoir {

void InstallAvx2Sparse(KernelTable* table) {
  SparseKernel<Avx2Words>::Install(table);
  PanelAttentionKernel<Avx2Words>::Install(table);
  LoadKvKernel<Avx2Words>::Install(table);
}

}  // namespace remontoir
