// Matrix products with AVX-512 and its dot products of bytes.
#include "kernels/byte_words_avx512.h"
#include "kernels/install.h"
#include "kernels/matmul_float.h"
#include "kernels/matmul_quantised.h"

namespace remontoir {
inline namespace REM_WORDS {

void InstallAvx512Products(KernelTable* table) {
  FloatProducts<Avx512ByteWords>::Install(table);
  QuantisedProducts<Avx512ByteWords, DotBlock<Avx512ByteWords>>::Install(table);
}

}  // namespace REM_WORDS
}  // namespace remontoir
