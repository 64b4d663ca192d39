// What one core can do at most, measured in the same run as the kernels.
#pragma once

namespace remontoir {

// Fused multiply-adds of eight floats from registers, in GFLOP/s.
double FmaPeak();
// Unsigned times signed bytes from registers, in GOP/s: widened to 32 bits at once, or added up in
// 16 bits (which 4-bit weights allow).
double Int8Peak();
double Int4Peak();

}  // namespace remontoir
