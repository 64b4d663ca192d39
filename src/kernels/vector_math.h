// math_scalar.h sixteen values at a time, with the same bits, in the words of an instruction set.
#pragma once

#include "kernels/math_scalar.h"

namespace remontoir {

template <class Words>
struct VectorMath {
  using Floats = typename Words::Floats;

  // 2^r for |r| <= 1/2.
  static Floats Exp2OfFraction(Floats r) {
    Floats p = Words::Set(scalar::kExp2P[5]);
#pragma GCC unroll 5
    for (int i = 4; i >= 0; --i) p = Words::MultiplyAdd(p, r, Words::Set(scalar::kExp2P[i]));
    return Words::MultiplyAdd(p, r, Words::Set(1.0F));
  }

  // 2^r * 2^n for |r| <= 1/2 and n a whole number in -126 ... 128.
  static Floats Exp2Reduced(Floats r, Floats n) {
    return Words::Multiply(Exp2OfFraction(r), Words::PowerOfTwo(n));
  }

  // The operand order of Smaller lets NaN through; lanes below the smallest exponent are cleared
  // last.
  static Floats Exp2(Floats x) {
    const Floats clamped = Words::Smaller(Words::Set(scalar::kExp2Max), x);
    const Floats n = Words::RoundToWhole(clamped);
    const Floats power = Exp2Reduced(Words::Subtract(clamped, n), n);
    return Words::Clear(Words::Less(x, Words::Set(scalar::kExp2Min)), power);
  }

  // Exp2 for x up to 0 (and NaN), with the same bits.
  static Floats Exp2UpToZero(Floats x) {
    const Floats n = Words::RoundToWhole(x);
    const Floats power = Words::Shift(Exp2OfFraction(Words::Subtract(x, n)), n);
    return Words::Clear(Words::Less(x, Words::Set(scalar::kExp2Min)), power);
  }

  static Floats Exp(Floats x) {
    const Floats clamped = Words::Smaller(Words::Set(scalar::kExpMax), x);
    const Floats log2e = Words::Set(scalar::kLog2E);
    const Floats n = Words::RoundToWhole(Words::Multiply(clamped, log2e));
    Floats r = Words::MultiplyAdd(n, Words::Set(-scalar::kLn2High), clamped);
    r = Words::MultiplyAdd(n, Words::Set(-scalar::kLn2Low), r);
    const Floats power = Exp2Reduced(Words::Multiply(r, log2e), n);
    return Words::Clear(Words::Less(x, Words::Set(scalar::kExpMin)), power);
  }

  static Floats Tanh(Floats x) {
    const Floats magnitude = Words::Magnitude(x);
    const Floats square = Words::Multiply(x, x);
    Floats p = Words::Set(scalar::kTanhP[4]);
#pragma GCC unroll 4
    for (int i = 3; i >= 0; --i) p = Words::MultiplyAdd(p, square, Words::Set(scalar::kTanhP[i]));
    const Floats small = Words::MultiplyAdd(Words::Multiply(x, square), p, x);

    const Floats one = Words::Set(1.0F);
    const Floats power = Exp(Words::Multiply(Words::Set(2.0F), magnitude));
    const Floats ratio = Words::Divide(Words::Set(2.0F), Words::Add(power, one));
    const Floats large = Words::WithSignOf(Words::Subtract(one, ratio), x);
    return Words::Select(Words::Less(magnitude, Words::Set(scalar::kTanhSmall)), small, large);
  }
};

}  // namespace remontoir
