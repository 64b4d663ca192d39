// Training: truncated back-propagation in lanes with Adam, best epoch by validation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "predictor/gradient.h"

namespace remontoir {

struct TrainerOptions {
  int hidden = 24;  // 0: a linear model
  int epochs = 8;
  uint64_t seed = 1;
};

struct TrainedNetwork {
  NetworkShape shape;
  std::vector<float> parameters;
  int best_epoch = 0;          // 0: untrained was best
  double validation_loss = 0;  // of it, nats a tick
};

// Told after every epoch, 0 before the first: its validation loss.
using EpochReport = std::function<void(int epoch, double validation_loss)>;

// The same series, split, base and options, the same bits. The training part has at least
// kTrainTicksMin ticks.
inline constexpr int64_t kTrainTicksMin = 400;
TrainedNetwork TrainNetwork(const TickSeries& series, const TickSplit& split, const BaseRule& base,
                            const TrainerOptions& options, const EpochReport& report);

// Distributions of a network for ticks [begin, end), run in order, as a server would.
class NetworkRun {
 public:
  // The state has been warmed by the ticks of the minute before `begin`.
  NetworkRun(const TickSeries& series, NetworkShape shape, std::span<const float> parameters,
             int64_t begin);

  // The next tick's outputs, as LossOf takes them.
  std::array<float, kOutputCount> Next();

 private:
  const TickSeries* series_;
  NetworkShape shape_;
  std::span<const float> parameters_;
  int64_t tick_;
  std::array<float, kHiddenMax> h_{};
  std::array<float, kHiddenMax> c_{};
  std::array<float, kHiddenMax> tanh_c_{};
  std::array<float, size_t{kGateCount} * kHiddenMax> gates_{};
};

}  // namespace remontoir
