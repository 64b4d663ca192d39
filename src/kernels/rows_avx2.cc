// Everything between products and attention with AVX2, FMA and F16C.
#include "kernels/install.h"
#include "kernels/rows_kernel.h"
#include "kernels/words_avx2.h"

namespace remontoir {

void InstallAvx2Rows(KernelTable* table) { RowsKernel<Avx2Words>::Install(table); }

}  // namespace remontoir
