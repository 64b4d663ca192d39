// The arrival predictor: told of requests and of time, it says what the next 100 ms may bring.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "predictor/forecast.h"
#include "predictor/mixture.h"
#include "predictor/trained_predictor.h"

namespace remontoir {

enum class ForecastModel {
  kNone,    // Forecast() always says that nobody comes
  kEwma,    // moving averages of the rate, mixed by how well each did so far
  kLstmV2,  // that one mixed with a trained network, by how well either did so far
};

struct ArrivalPredictorOptions {
  ForecastModel model = ForecastModel::kNone;
  // Added to a TimePoint: microseconds since 1970 on the local clock, for the hour features.
  std::optional<int64_t> local_offset_us;
  // Of kEwma, and of kLstmV2 without a network.
  int tick_ms = 20;  // see IsTickMs
};

// No thread, no clock, and after construction no allocation. Time may be any TimePoint, but should
// not go back: what lies before the current tick counts as now.
class ArrivalPredictor {
 public:
  // `network` is for kLstmV2; without one it is a kEwma that reports fallback().
  ArrivalPredictor(TimePoint start, const ArrivalPredictorOptions& options,
                   std::optional<TrainedPredictor> network = std::nullopt);

  // A request came at `at`, which advances time to `at`. Cell and device: kUnknownClass if unknown.
  void Arrived(TimePoint at, int32_t prompt_tokens, int client_cell = kUnknownClass,
               int device = kUnknownClass);

  // Runs the ticks that ended by `now`. After a pause of more than kCatchUpTicks only the first
  // ticks (until open targets are known) and the last kCatchUpTicks are run; those between decay
  // the moving averages in one step, leave the network's state as it was and aren't scored. The
  // network learnt with a memory of 100 ticks, so its state has settled again by then.
  void Advance(TimePoint now);
  static constexpr int64_t kCatchUpTicks = 100;

  // Of the 100 ms after the last tick that ended.
  ArrivalForecast Forecast() const { return forecast_; }

  // Whether kLstmV2 answers with the moving average alone, since the network does worse (see
  // ForecastMixture) or is missing or broken.
  bool fallback() const;
  // Mean log scores of resolved ticks in the last 300 s, nats, 0 before any; higher is better.
  double lstm_score() const { return mixture_.scores().network_score(); }
  double ewma_score() const { return mixture_.scores().average_score(); }
  double lstm_weight() const { return network_ ? mixture_.network_weight() : 0.0; }
  int64_t ticks() const { return ticks_; }  // run, not skipped

 private:
  static constexpr size_t kPendingMax = 10;  // ticks in a horizon, at most
  struct Pending {
    bool valid = false;
    int arrivals = 0;  // so far
    AverageMixture::Averages averages{};
    ClassProbabilities average{};  // of them
    ClassProbabilities network{};
  };

  void EndTick();
  void ResolvePending();
  bool StepNetwork(ClassProbabilities& classes);

  ArrivalPredictorOptions options_;
  std::optional<TrainedPredictor> network_;  // gone when it gave something that isn't finite
  int tick_ms_;
  ArrivalFeatures features_;
  AverageMixture averages_;
  ForecastMixture mixture_;
  ArrivalForecast forecast_;
  int64_t ticks_ = 0;
  std::array<Pending, kPendingMax> pending_{};  // a ring of as many as the horizon has ticks
  size_t next_pending_ = 0;
  std::array<float, kHiddenMax> h_{};
  std::array<float, kHiddenMax> c_{};
  std::array<float, kHiddenMax> tanh_c_{};
  std::array<float, size_t{kGateCount} * kHiddenMax> gates_{};
};

// A predictor for a server: `file` is read when the model is kLstmV2. A file that is missing, of
// another format or broken never stops a start: the predictor is then a moving average that
// reports fallback(), and `warning` says why.
struct OpenedPredictor {
  ArrivalPredictor predictor;
  Status warning;
};
OpenedPredictor OpenArrivalPredictor(TimePoint start, const ArrivalPredictorOptions& options,
                                     const std::string& file);

}  // namespace remontoir
