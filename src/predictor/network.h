// The network: one LSTM layer over the features and a linear head of two outputs.
#pragma once

#include <cmath>
#include <cstddef>

#include "predictor/features.h"

namespace remontoir {

inline constexpr int kHiddenMax = 24;
inline constexpr int kGateCount = 4;  // input, forget, candidate, output, in this order
inline constexpr int kOutputCount = 2;

// Where the parameters lie in one array. Hidden may be 0: a linear model of the features.
struct NetworkShape {
  int hidden = 0;

  size_t state() const { return static_cast<size_t>(hidden); }
  size_t gates() const { return kGateCount * state(); }
  size_t inputs() const { return kFeatureCount + state(); }
  size_t head_inputs() const { return state() + kFeatureCount; }
  // [18 + H][4H], features first: the transpose of the file's, so that inner loops run over gates.
  static constexpr size_t cell() { return 0; }
  size_t cell_bias() const { return inputs() * gates(); }  // [4H]
  size_t head() const { return cell_bias() + gates(); }    // [2][H + 18], state first
  size_t head_bias() const { return head() + kOutputCount * head_inputs(); }  // [2]
  size_t parameter_count() const { return head_bias() + kOutputCount; }
};

template <class Real>
Real Sigmoid(Real x) {
  return Real(1) / (Real(1) + std::exp(-x));
}

// One step of the cell. x [18], h_before and c_before [H]; writes gates [4H] (activated), c, tanh_c
// and h [H]; h may be h_before and c may be c_before.
template <class Real>
void StepCell(const NetworkShape& shape, const Real* parameters, const Real* x,
              const Real* h_before, const Real* c_before, Real* gates, Real* c, Real* tanh_c,
              Real* h) {
  const size_t width = shape.gates();
  const size_t hidden = shape.state();
  const Real* bias = parameters + shape.cell_bias();
  for (size_t j = 0; j < width; ++j) gates[j] = bias[j];
  const Real* weights = parameters + NetworkShape::cell();
  for (size_t k = 0; k < shape.inputs(); ++k, weights += width) {
    const Real value = k < kFeatureCount ? x[k] : h_before[k - kFeatureCount];
    for (size_t j = 0; j < width; ++j) gates[j] += value * weights[j];
  }
  for (size_t j = 0; j < 2 * hidden; ++j) gates[j] = Sigmoid(gates[j]);
  for (size_t j = 2 * hidden; j < 3 * hidden; ++j) gates[j] = std::tanh(gates[j]);
  for (size_t j = 3 * hidden; j < width; ++j) gates[j] = Sigmoid(gates[j]);
  for (size_t j = 0; j < hidden; ++j) {
    c[j] = gates[hidden + j] * c_before[j] + gates[j] * gates[2 * hidden + j];
    tanh_c[j] = std::tanh(c[j]);
    h[j] = gates[3 * hidden + j] * tanh_c[j];
  }
}

// Both outputs of the head for a state and the features.
template <class Real>
std::array<Real, kOutputCount> ApplyHead(const NetworkShape& shape, const Real* parameters,
                                         const Real* x, const Real* h) {
  std::array<Real, kOutputCount> out;
  const size_t hidden = shape.state();
  for (size_t i = 0; i < kOutputCount; ++i) {
    const Real* weights = parameters + shape.head() + i * shape.head_inputs();
    Real sum = parameters[shape.head_bias() + i];
    for (size_t j = 0; j < hidden; ++j) sum += weights[j] * h[j];
    for (size_t j = 0; j < kFeatureCount; ++j) sum += weights[hidden + j] * x[j];
    out[i] = sum;
  }
  return out;
}

}  // namespace remontoir
