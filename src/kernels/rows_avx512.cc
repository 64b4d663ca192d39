// Everything between products and attention with AVX-512.
#include "kernels/install.h"
#include "kernels/rows_kernel.h"
#include "kernels/words_avx512.h"

namespace remontoir {
inline namespace REM_WORDS {

void InstallAvx512Rows(KernelTable* table) { RowsKernel<Avx512Words>::Install(table); }

}  // namespace REM_WORDS
}  // namespace remontoir
