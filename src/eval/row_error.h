// How far a row of sparse attention is from the exact one, and whether its residual said so.
#pragma once

#include <span>

namespace remontoir {

// |sparse - exact| / |exact|, in float64; 0 where both are zeros, infinity where only the exact one
// is.
double RelativeError(std::span<const float> exact, std::span<const float> sparse);

// Whether the residual of a row did not warn of its error: it is above twice the residual, and
// above 0.02, as smaller ones do no harm.
bool IsMissedAlarm(double error, double residual);

}  // namespace remontoir
