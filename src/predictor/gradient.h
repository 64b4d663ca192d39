// The loss of a stretch of ticks in several lanes, and its gradient by back-propagation in time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "predictor/network.h"
#include "predictor/tick_series.h"

namespace remontoir {

// What the network corrects: the moving average of one time constant.
struct BaseRule {
  int tau_index = 3;
  double train_mean = 0;
};

// Negative binomial loss in nats of `target` arrivals, and its derivatives after the network's
// outputs (0 where a bound holds).
struct CountLoss {
  double loss = 0;
  double by_mean_output = 0;
  double by_size_output = 0;
};
CountLoss LossOf(double base, double mean_output, double size_output, int32_t target);

// Lanes run side by side, each over `steps` ticks; their states carry over to the next stretch.
// Real is float for training; double where a gradient is checked.
template <class Real>
class StretchGradient {
 public:
  StretchGradient(NetworkShape shape, int lanes, int steps);

  void ResetStates();

  // Mean loss of ticks [starts[lane], starts[lane] + steps) under `parameters`. Unless `gradient`
  // is empty, writes its derivatives there and carries the states on.
  double Run(const TickSeries& series, const BaseRule& base, std::span<const Real> parameters,
             std::span<const int64_t> starts, std::span<Real> gradient);

 private:
  double Forward(const TickSeries& series, const BaseRule& base, std::span<const Real> parameters,
                 int64_t start, int lane);
  void Backward(std::span<const Real> parameters, std::span<Real> gradient);
  void TransposeStateWeights(std::span<const Real> parameters);

  NetworkShape shape_;
  int lanes_;
  int steps_;
  std::vector<Real> carried_h_, carried_c_;  // [lanes][H]
  // Of one lane's stretch: states before step 0 stand at index 0.
  std::vector<Real> x_;       // [steps][18]
  std::vector<Real> gates_;   // [steps][4H]
  std::vector<Real> tanh_c_;  // [steps][H]
  std::vector<Real> h_, c_;   // [steps + 1][H]
  std::vector<Real> by_out_;  // [steps][2]
  std::vector<Real> by_gates_, by_h_, by_c_;
  std::vector<Real> state_weights_;  // [4H][H]
};

extern template class StretchGradient<float>;
extern template class StretchGradient<double>;

// The worst relative error of the float gradient against central differences in double, over
// `samples` parameters drawn by seed: |a - b| / max(|a|, |b|, 1 % of the largest derivative). Small
// random parameters, all of them, so that nothing is zero by accident.
double CheckGradient(const TickSeries& series, const BaseRule& base, int hidden, int samples,
                     uint64_t seed);

}  // namespace remontoir
