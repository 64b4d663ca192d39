// Sparse attention one lane at a time.
#include "kernels/estimate_kernel.h"
#include "kernels/install.h"
#include "kernels/load_kv_kernel.h"
#include "kernels/panel_attention_kernel.h"
#include "kernels/sparse_kernel.h"
#include "kernels/words_scalar.h"

namespace remontoir {

void InstallScalarSparse(KernelTable* table) {
  SparseKernel<ScalarWords>::Install(table);
  EstimateKernel<ScalarWords>::Install(table);
  PanelAttentionKernel<ScalarWords>::Install(table);
  LoadKvKernel<ScalarWords>::Install(table);
}

}  // namespace remontoir
