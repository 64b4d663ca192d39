// Lanes are independent but for the sum of their gradients, so one is done after the other.
#include "predictor/gradient.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "predictor/distributions.h"
#include "predictor/random_normal.h"

namespace remontoir {

CountLoss LossOf(double base, double mean_output, double size_output, int32_t target) {
  const NegativeBinomial distribution = DistributionOf(base, mean_output, size_output);
  const double mean = std::exp(distribution.log_mean);
  const double size = std::exp(distribution.log_size);
  const double log_size_share = -std::log1p(mean / size);  // ln(r / (r + mean))
  const double log_mean_share = log_size_share + distribution.log_mean - distribution.log_size;
  CountLoss result;
  result.loss = -size * log_size_share - target * log_mean_share;
  double reciprocals = 0;
  for (int32_t k = 0; k < target; ++k) {
    result.loss -= std::log((size + k) / (k + 1));
    reciprocals += 1.0 / (size + k);
  }
  const double log_mean = std::log(base) + mean_output;
  if (log_mean > kLogMeanMin && log_mean < kLogMeanMax) {
    result.by_mean_output = mean * (target + size) / (size + mean) - target;
  }
  const double log_size = kLogSizeBase + size_output;
  if (log_size > kLogSizeMin && log_size < kLogSizeMax) {
    result.by_size_output =
        -size * (reciprocals + log_size_share + 1.0 - (size + target) / (size + mean));
  }
  return result;
}

template <class Real>
StretchGradient<Real>::StretchGradient(NetworkShape shape, int lanes, int steps)
    : shape_(shape), lanes_(lanes), steps_(steps) {
  const size_t hidden = shape.state();
  const auto count = static_cast<size_t>(steps);
  carried_h_.resize(static_cast<size_t>(lanes) * hidden);
  carried_c_.resize(carried_h_.size());
  x_.resize(count * kFeatureCount);
  gates_.resize(count * shape.gates());
  tanh_c_.resize(count * hidden);
  h_.resize((count + 1) * hidden);
  c_.resize(h_.size());
  by_out_.resize(count * kOutputCount);
  by_gates_.resize(shape.gates());
  by_h_.resize(hidden);
  by_c_.resize(hidden);
  state_weights_.resize(shape.gates() * hidden);
}

template <class Real>
void StretchGradient<Real>::ResetStates() {
  std::ranges::fill(carried_h_, Real(0));
  std::ranges::fill(carried_c_, Real(0));
}

template <class Real>
void StretchGradient<Real>::TransposeStateWeights(std::span<const Real> parameters) {
  const size_t width = shape_.gates();
  const size_t hidden = shape_.state();
  const Real* weights = parameters.data() + NetworkShape::cell() + kFeatureCount * width;
  for (size_t k = 0; k < hidden; ++k) {
    for (size_t j = 0; j < width; ++j) state_weights_[j * hidden + k] = weights[k * width + j];
  }
}

template <class Real>
double StretchGradient<Real>::Forward(const TickSeries& series, const BaseRule& base,
                                      std::span<const Real> parameters, int64_t start, int lane) {
  const size_t width = shape_.gates();
  const size_t hidden = shape_.state();
  const size_t carried = static_cast<size_t>(lane) * hidden;
  std::copy_n(carried_h_.data() + carried, hidden, h_.data());
  std::copy_n(carried_c_.data() + carried, hidden, c_.data());
  double loss = 0;
  for (size_t t = 0; t < static_cast<size_t>(steps_); ++t) {
    const int64_t tick = start + static_cast<int64_t>(t);
    Real* x = x_.data() + t * kFeatureCount;
    const float* features = series.FeaturesAt(tick);
    std::transform(features, features + kFeatureCount, x,
                   [](float value) { return static_cast<Real>(value); });
    Real* h = h_.data() + (t + 1) * hidden;
    StepCell(shape_, parameters.data(), x, h - hidden, c_.data() + t * hidden,
             gates_.data() + t * width, c_.data() + (t + 1) * hidden, tanh_c_.data() + t * hidden,
             h);
    const auto out = ApplyHead(shape_, parameters.data(), x, h);
    const CountLoss count_loss =
        LossOf(BaseMean(series.RateAt(tick, base.tau_index), base.train_mean), out[0], out[1],
               series.targets[static_cast<size_t>(tick)]);
    loss += count_loss.loss;
    const double scale = 1.0 / (static_cast<double>(lanes_) * steps_);
    by_out_[t * kOutputCount] = static_cast<Real>(count_loss.by_mean_output * scale);
    by_out_[t * kOutputCount + 1] = static_cast<Real>(count_loss.by_size_output * scale);
  }
  return loss;
}

template <class Real>
void StretchGradient<Real>::Backward(std::span<const Real> parameters, std::span<Real> gradient) {
  const size_t width = shape_.gates();
  const size_t hidden = shape_.state();
  const size_t head_width = shape_.head_inputs();
  const Real* head = parameters.data() + shape_.head();
  Real* const by_head = gradient.data() + shape_.head();
  Real* const by_cell = gradient.data() + NetworkShape::cell();
  Real* const by_bias = gradient.data() + shape_.cell_bias();
  std::ranges::fill(by_h_, Real(0));  // of the state after the step, from later steps
  std::ranges::fill(by_c_, Real(0));
  for (size_t t = static_cast<size_t>(steps_); t-- > 0;) {
    const Real* x = x_.data() + t * kFeatureCount;
    const Real* h_before = h_.data() + t * hidden;
    const Real* h = h_before + hidden;
    for (size_t i = 0; i < kOutputCount; ++i) {
      const Real by_out = by_out_[t * kOutputCount + i];
      Real* row = by_head + i * head_width;
      for (size_t j = 0; j < hidden; ++j) row[j] += by_out * h[j];
      for (size_t j = 0; j < kFeatureCount; ++j) row[hidden + j] += by_out * x[j];
      gradient[shape_.head_bias() + i] += by_out;
      for (size_t j = 0; j < hidden; ++j) by_h_[j] += by_out * head[i * head_width + j];
    }
    const Real* in = gates_.data() + t * width;
    const Real* forget = in + hidden;
    const Real* candidate = forget + hidden;
    const Real* out = candidate + hidden;
    const Real* c_before = c_.data() + t * hidden;
    const Real* tanh_c = tanh_c_.data() + t * hidden;
    Real* by = by_gates_.data();
    for (size_t j = 0; j < hidden; ++j) {
      const Real by_c = by_c_[j] + by_h_[j] * out[j] * (Real(1) - tanh_c[j] * tanh_c[j]);
      by[j] = by_c * candidate[j] * in[j] * (Real(1) - in[j]);
      by[hidden + j] = by_c * c_before[j] * forget[j] * (Real(1) - forget[j]);
      by[2 * hidden + j] = by_c * in[j] * (Real(1) - candidate[j] * candidate[j]);
      by[3 * hidden + j] = by_h_[j] * tanh_c[j] * out[j] * (Real(1) - out[j]);
      by_c_[j] = by_c * forget[j];
    }
    for (size_t j = 0; j < width; ++j) by_bias[j] += by[j];
    for (size_t k = 0; k < shape_.inputs(); ++k) {
      const Real value = k < kFeatureCount ? x[k] : h_before[k - kFeatureCount];
      Real* row = by_cell + k * width;
      for (size_t j = 0; j < width; ++j) row[j] += value * by[j];
    }
    std::ranges::fill(by_h_, Real(0));
    for (size_t j = 0; j < width; ++j) {
      const Real* row = state_weights_.data() + j * hidden;
      for (size_t k = 0; k < hidden; ++k) by_h_[k] += by[j] * row[k];
    }
  }
}

template <class Real>
double StretchGradient<Real>::Run(const TickSeries& series, const BaseRule& base,
                                  std::span<const Real> parameters, std::span<const int64_t> starts,
                                  std::span<Real> gradient) {
  REM_CHECK(starts.size() == static_cast<size_t>(lanes_), "a start for every lane");
  const size_t hidden = shape_.state();
  std::ranges::fill(gradient, Real(0));
  if (!gradient.empty()) TransposeStateWeights(parameters);
  double loss = 0;
  for (int lane = 0; lane < lanes_; ++lane) {
    loss += Forward(series, base, parameters, starts[static_cast<size_t>(lane)], lane);
    if (gradient.empty()) continue;
    Backward(parameters, gradient);
    const size_t carried = static_cast<size_t>(lane) * hidden;
    const size_t last = static_cast<size_t>(steps_) * hidden;
    std::copy_n(h_.data() + last, hidden, carried_h_.data() + carried);
    std::copy_n(c_.data() + last, hidden, carried_c_.data() + carried);
  }
  return loss / (static_cast<double>(lanes_) * steps_);
}

template class StretchGradient<float>;
template class StretchGradient<double>;

double CheckGradient(const TickSeries& series, const BaseRule& base, int hidden, int samples,
                     uint64_t seed) {
  constexpr int kLanes = 4;
  constexpr int kSteps = 25;
  constexpr double kStep = 1e-5;
  constexpr double kSpread = 0.2;
  REM_CHECK(series.size() >= int64_t{kLanes} * kSteps, "too few ticks for a gradient");
  const NetworkShape shape{hidden};
  const RandomNormal normal(seed, 1);
  const CounterRandom uniform(seed, 2);
  std::vector<double> parameters(shape.parameter_count());
  for (size_t i = 0; i < parameters.size(); ++i) {
    // Rounded to float, so that both precisions have the same ones.
    parameters[i] = static_cast<double>(static_cast<float>(kSpread * normal.Draw(i)));
  }
  const std::vector<float> rounded(parameters.begin(), parameters.end());
  std::vector<int64_t> starts(kLanes);
  for (size_t lane = 0; lane < starts.size(); ++lane) {
    const double room = static_cast<double>(series.size() - kSteps);
    starts[lane] = static_cast<int64_t>(room * uniform.Uniform(lane));
  }
  std::vector<float> gradient(parameters.size());
  StretchGradient<float>(shape, kLanes, kSteps)
      .Run(series, base, std::span<const float>(rounded), starts, gradient);
  float largest = 0;
  for (const float value : gradient) largest = std::max(largest, std::fabs(value));
  StretchGradient<double> exact(shape, kLanes, kSteps);
  const auto loss_at = [&](size_t i, double value) {
    const double before = parameters[i];
    parameters[i] = value;
    const double loss = exact.Run(series, base, std::span<const double>(parameters), starts, {});
    parameters[i] = before;
    return loss;
  };
  double worst = 0;
  for (int sample = 0; sample < samples; ++sample) {
    const double draw = uniform.Uniform(1000 + static_cast<uint64_t>(sample));
    const auto i = static_cast<size_t>(draw * static_cast<double>(parameters.size()));
    const double at = parameters[i];
    const double difference = (loss_at(i, at + kStep) - loss_at(i, at - kStep)) / (2 * kStep);
    const double given = gradient[i];
    const double scale = std::max({std::fabs(difference), std::fabs(given), 0.01 * largest, 1e-12});
    worst = std::max(worst, std::fabs(difference - given) / scale);
  }
  return worst;
}

}  // namespace remontoir
