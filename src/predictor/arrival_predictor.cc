// A tick: features, both experts' forecasts, and the scores of those whose 100 ms are over.
#include "predictor/arrival_predictor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace remontoir {
namespace {

FeatureMask AllFeatures() { return FeatureMask().set(); }

std::optional<TrainedPredictor> NetworkFor(const ArrivalPredictorOptions& options,
                                           std::optional<TrainedPredictor> network) {
  if (options.model != ForecastModel::kLstmV2 || !network) return std::nullopt;
  REM_CHECK(network->shape.hidden >= 1 && network->shape.hidden <= kHiddenMax &&
                network->parameters.size() == network->shape.parameter_count() &&
                IsTickMs(network->tick_ms) && network->tau_index >= 0 &&
                network->tau_index < kRateCount,
            "a network of another shape than it says");
  return network;
}

}  // namespace

ArrivalPredictor::ArrivalPredictor(TimePoint start, const ArrivalPredictorOptions& options,
                                   std::optional<TrainedPredictor> network)
    : options_(options),
      network_(NetworkFor(options, std::move(network))),
      tick_ms_(network_ ? network_->tick_ms : options.tick_ms),
      features_(start, tick_ms_, network_ ? network_->mask : AllFeatures(),
                options.local_offset_us),
      averages_(tick_ms_),
      mixture_(tick_ms_) {
  REM_CHECK(IsTickMs(tick_ms_), "a horizon is a whole number of ticks");
}

void ArrivalPredictor::Arrived(TimePoint at, int32_t prompt_tokens, int client_cell, int device) {
  if (options_.model == ForecastModel::kNone) return;
  Advance(at);
  features_.Arrived(at, prompt_tokens, client_cell, device);
}

void ArrivalPredictor::Advance(TimePoint now) {
  if (options_.model == ForecastModel::kNone) return;
  const int64_t tick_us = int64_t{tick_ms_} * 1000;
  if (now < features_.tick_end()) return;
  int64_t due = ElapsedUs(features_.tick_end(), now) / tick_us + 1;
  const int64_t horizon_ticks = kForecastHorizonMs / tick_ms_;
  if (due > kCatchUpTicks + horizon_ticks) {
    for (int64_t i = 0; i < horizon_ticks; ++i) EndTick();
    const int64_t skipped = due - horizon_ticks - kCatchUpTicks;
    features_.SkipTicks(skipped);
    mixture_.SkipTicks(skipped);
    for (Pending& pending : pending_) pending.valid = false;
    due = kCatchUpTicks;
  }
  for (int64_t i = 0; i < due; ++i) EndTick();
}

// Adds the tick's arrivals to all open targets, and resolves the oldest: its 100 ms end here.
void ArrivalPredictor::ResolvePending() {
  for (Pending& pending : pending_) pending.arrivals += features_.count();
  const Pending& oldest = pending_[next_pending_];
  if (!oldest.valid) return;
  averages_.Resolve(oldest.averages, oldest.arrivals);
  mixture_.Resolve(oldest.average, oldest.network, oldest.arrivals);
}

// False when the network's answer isn't finite.
bool ArrivalPredictor::StepNetwork(ClassProbabilities& classes) {
  const float* const parameters = network_->parameters.data();
  const float* const x = features_.values().data();
  StepCell(network_->shape, parameters, x, h_.data(), c_.data(), gates_.data(), c_.data(),
           tanh_c_.data(), h_.data());
  const std::array<float, kOutputCount> out = ApplyHead(network_->shape, parameters, x, h_.data());
  if (!std::isfinite(out[0]) || !std::isfinite(out[1])) return false;
  const double base = BaseMean(features_.Rate(network_->tau_index), network_->train_mean);
  classes = NegativeBinomialClasses(DistributionOf(base, out[0], out[1]));
  return true;
}

void ArrivalPredictor::EndTick() {
  ++ticks_;
  features_.EndTick();
  ResolvePending();
  Pending& pending = pending_[next_pending_];
  next_pending_ = (next_pending_ + 1) % static_cast<size_t>(kForecastHorizonMs / tick_ms_);
  pending.valid = true;
  pending.arrivals = 0;
  const double train_mean = network_ ? network_->train_mean : 0.0;
  for (int i = 0; i < kRateCount; ++i) {
    pending.averages[static_cast<size_t>(i)] =
        PoissonClasses(BaseMean(features_.Rate(i), train_mean));
  }
  pending.average = averages_.Mix(pending.averages);
  pending.network = pending.average;
  if (network_ && !StepNetwork(pending.network)) {
    network_.reset();
    pending.network = pending.average;
  }
  forecast_.probability = network_ && !mixture_.fallback()
                              ? mixture_.Mix(pending.average, pending.network)
                              : pending.average;
}

bool ArrivalPredictor::fallback() const {
  return options_.model == ForecastModel::kLstmV2 && (!network_ || mixture_.fallback());
}

OpenedPredictor OpenArrivalPredictor(TimePoint start, const ArrivalPredictorOptions& options,
                                     const std::string& file) {
  if (options.model != ForecastModel::kLstmV2) {
    return {ArrivalPredictor(start, options), Status::Ok()};
  }
  Result<TrainedPredictor> network =
      file.empty() ? Result<TrainedPredictor>(NotFound("no predictor file is given"))
                   : ReadPredictor(file);
  if (!network.ok()) {
    return {ArrivalPredictor(start, options),
            network.status().WithContext("the arrival predictor is a moving average")};
  }
  return {ArrivalPredictor(start, options, std::move(network).value()), Status::Ok()};
}

}  // namespace remontoir
