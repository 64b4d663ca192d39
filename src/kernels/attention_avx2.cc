// Attention with AVX2, FMA and F16C.
#include "kernels/attention_kernel.h"
#include "kernels/install.h"
#include "kernels/words_avx2.h"

namespace remontoir {

void InstallAvx2Attention(KernelTable* table) { AttentionKernel<Avx2Words>::Install(table); }

}  // namespace remontoir
