// The words of byte_words_avx2.h with dot products of bytes, whose one instruction has two
// encodings: VEX (AVX-VNNI) and EVEX (AVX-512).
#pragma once

#include "kernels/byte_words_avx2.h"

namespace remontoir {

// Encoding::Dot(sum, weights, four) on eight lanes.
template <class Encoding>
struct AvxVnniByteWords : Avx2ByteWords {
  static Ints Dot(Ints sum, Ints weights, __m256i four) {
    return {Encoding::Dot(sum.low, weights.low, four), Encoding::Dot(sum.high, weights.high, four)};
  }
};

}  // namespace remontoir
