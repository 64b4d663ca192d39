// Adam with a falling rate and decoupled decay; lanes are stretches of the training part.
#include "predictor/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "predictor/distributions.h"
#include "predictor/random_normal.h"

namespace remontoir {
namespace {

constexpr int kLanes = 32;
constexpr int64_t kStretchTicks = 100;
constexpr double kRateFirst = 0.004;
constexpr double kRateLastShare = 0.1;
constexpr double kDecay = 1e-4;
constexpr double kNormMax = 1.0;
constexpr int64_t kWarmUpMs = 60'000;

class Adam {
 public:
  explicit Adam(size_t count) : mean_(count), square_(count) {}

  void Step(std::span<const float> gradient, double rate, std::span<float> parameters) {
    ++steps_;
    double norm = 0;
    for (const float value : gradient) norm += static_cast<double>(value) * value;
    norm = std::sqrt(norm);
    if (!std::isfinite(norm)) return;
    const auto clip = static_cast<float>(norm > kNormMax ? kNormMax / norm : 1.0);
    const double mean_share = 1.0 - std::pow(kMeanKept, steps_);
    const double square_share = 1.0 - std::pow(kSquareKept, steps_);
    const auto step = static_cast<float>(rate / mean_share);
    const auto square_scale = static_cast<float>(1.0 / square_share);
    const auto keep = static_cast<float>(1.0 - rate * kDecay);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const float value = gradient[i] * clip;
      mean_[i] = kMeanKept * mean_[i] + (1.0F - kMeanKept) * value;
      square_[i] = kSquareKept * square_[i] + (1.0F - kSquareKept) * value * value;
      parameters[i] =
          keep * parameters[i] - step * mean_[i] / (std::sqrt(square_[i] * square_scale) + 1e-8F);
    }
  }

 private:
  static constexpr float kMeanKept = 0.9F;
  static constexpr float kSquareKept = 0.999F;
  int steps_ = 0;
  std::vector<float> mean_, square_;
};

// Weights of the cell N(0, 1 / inputs), forget bias 1, head 0: it starts as the moving average.
std::vector<float> FirstParameters(const NetworkShape& shape, uint64_t seed) {
  std::vector<float> parameters(shape.parameter_count(), 0.0F);
  const RandomNormal normal(seed, 0);
  const double spread = 1.0 / std::sqrt(static_cast<double>(shape.inputs()));
  for (size_t i = NetworkShape::cell(); i < shape.cell_bias(); ++i) {
    parameters[i] = static_cast<float>(spread * normal.Draw(i));
  }
  const size_t hidden = shape.state();
  std::fill_n(parameters.begin() + static_cast<std::ptrdiff_t>(shape.cell_bias() + hidden), hidden,
              1.0F);
  return parameters;
}

double MeanLoss(const TickSeries& series, const BaseRule& base, const NetworkShape& shape,
                std::span<const float> parameters, int64_t begin, int64_t end) {
  NetworkRun run(series, shape, parameters, begin);
  double loss = 0;
  for (int64_t tick = begin; tick < end; ++tick) {
    const auto out = run.Next();
    loss += LossOf(BaseMean(series.RateAt(tick, base.tau_index), base.train_mean), out[0], out[1],
                   series.targets[static_cast<size_t>(tick)])
                .loss;
  }
  return loss / static_cast<double>(std::max<int64_t>(1, end - begin));
}

}  // namespace

NetworkRun::NetworkRun(const TickSeries& series, NetworkShape shape,
                       std::span<const float> parameters, int64_t begin)
    : series_(&series),
      shape_(shape),
      parameters_(parameters),
      tick_(std::max<int64_t>(0, begin - kWarmUpMs / series.tick_ms)) {
  while (tick_ < begin) Next();
}

std::array<float, kOutputCount> NetworkRun::Next() {
  const float* x = series_->FeaturesAt(tick_++);
  StepCell(shape_, parameters_.data(), x, h_.data(), c_.data(), gates_.data(), c_.data(),
           tanh_c_.data(), h_.data());
  return ApplyHead(shape_, parameters_.data(), x, h_.data());
}

TrainedNetwork TrainNetwork(const TickSeries& series, const TickSplit& split, const BaseRule& base,
                            const TrainerOptions& options, const EpochReport& report) {
  REM_CHECK(split.train_end >= kTrainTicksMin, "too few ticks to train on");
  const NetworkShape shape{options.hidden};
  const int lanes =
      static_cast<int>(std::clamp<int64_t>(split.train_end / (2 * kStretchTicks), 1, kLanes));
  const int64_t lane_ticks = split.train_end / lanes;
  const int64_t stretches = lane_ticks / kStretchTicks;
  const CounterRandom offsets(options.seed, 3);
  std::vector<float> parameters = FirstParameters(shape, options.seed);
  std::vector<float> gradient(parameters.size());
  std::vector<int64_t> starts(static_cast<size_t>(lanes));
  StretchGradient<float> stretch(shape, lanes, kStretchTicks);
  Adam adam(parameters.size());
  const auto validate = [&] {
    return MeanLoss(series, base, shape, parameters, split.train_end, split.validation_end);
  };
  TrainedNetwork best{shape, parameters, 0, validate()};
  report(0, best.validation_loss);
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    stretch.ResetStates();
    const double draw = offsets.Uniform(static_cast<uint64_t>(epoch));
    const auto offset = static_cast<int64_t>(draw * kStretchTicks);
    for (int64_t i = 0; offset + (i + 1) * kStretchTicks <= lane_ticks; ++i) {
      for (size_t lane = 0; lane < starts.size(); ++lane) {
        starts[lane] = static_cast<int64_t>(lane) * lane_ticks + offset + i * kStretchTicks;
      }
      stretch.Run(series, base, std::span<const float>(parameters), starts, gradient);
      const double done = (static_cast<double>(epoch - 1) +
                           static_cast<double>(i) / static_cast<double>(stretches)) /
                          options.epochs;
      adam.Step(gradient, kRateFirst * (1.0 - (1.0 - kRateLastShare) * done), parameters);
    }
    const double loss = validate();
    report(epoch, loss);
    if (loss < best.validation_loss) best = {shape, parameters, epoch, loss};
  }
  return best;
}

}  // namespace remontoir
