// Weights in plain numbers: the fixed share keeps both above 5e-5.
#include "predictor/mixture.h"

#include <algorithm>
#include <cmath>

namespace remontoir {
namespace {

constexpr double kFixedShare = 1e-4;
constexpr double kTrustMin = 0.05;
constexpr int64_t kPatienceMs = 60'000;

}  // namespace

ScoreWindow::ScoreWindow(int tick_ms) : ticks_per_bucket_(1000 / tick_ms) {}

void ScoreWindow::NextBucket() {
  ticks_in_bucket_ = 0;
  current_ = (current_ + 1) % kBuckets;
  buckets_[static_cast<size_t>(current_)] = {};
  count_ = 0;
  average_sum_ = 0;
  network_sum_ = 0;
  for (const Bucket& bucket : buckets_) {
    count_ += bucket.count;
    average_sum_ += bucket.average;
    network_sum_ += bucket.network;
  }
}

void ScoreWindow::Add(double average_score, double network_score) {
  Bucket& bucket = buckets_[static_cast<size_t>(current_)];
  ++bucket.count;
  bucket.average += average_score;
  bucket.network += network_score;
  ++count_;
  average_sum_ += average_score;
  network_sum_ += network_score;
  if (++ticks_in_bucket_ >= ticks_per_bucket_) NextBucket();
}

void ScoreWindow::Skip(int64_t ticks) {
  const int64_t buckets = std::min<int64_t>(ticks / ticks_per_bucket_, kBuckets);
  for (int64_t i = 0; i < buckets; ++i) NextBucket();
}

AverageMixture::AverageMixture(int tick_ms)
    : power_(static_cast<double>(tick_ms) / kForecastHorizonMs) {
  weights_.fill(1.0 / kRateCount);
}

void AverageMixture::Resolve(const Averages& averages, int arrivals) {
  double sum = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] *= std::exp(-power_ * LogLoss(averages[i], arrivals));
    sum += weights_[i];
  }
  for (double& weight : weights_) {
    weight = (1.0 - kFixedShare) * weight / sum + kFixedShare / kRateCount;
  }
}

ClassProbabilities AverageMixture::Mix(const Averages& averages) const {
  ClassProbabilities mixed{};
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto weight = static_cast<float>(weights_[i]);
    for (size_t k = 0; k < mixed.size(); ++k) mixed[k] += weight * averages[i][k];
  }
  return mixed;
}

ForecastMixture::ForecastMixture(int tick_ms) : tick_ms_(tick_ms), scores_(tick_ms) {}

void ForecastMixture::Resolve(const ClassProbabilities& average, const ClassProbabilities& network,
                              int arrivals) {
  const double average_loss = LogLoss(average, arrivals);
  const double network_loss = LogLoss(network, arrivals);
  scores_.Add(-average_loss, -network_loss);
  const double power = static_cast<double>(tick_ms_) / kForecastHorizonMs;
  const double gain = std::exp(power * (average_loss - network_loss));
  const double posterior =
      network_weight_ * gain / (network_weight_ * gain + 1.0 - network_weight_);
  network_weight_ = (1.0 - kFixedShare) * posterior + kFixedShare * 0.5;
  ticks_distrusted_ = network_weight_ < kTrustMin ? ticks_distrusted_ + 1 : 0;
}

ClassProbabilities ForecastMixture::Mix(const ClassProbabilities& average,
                                        const ClassProbabilities& network) const {
  const auto weight = static_cast<float>(network_weight_);
  ClassProbabilities mixed;
  for (size_t i = 0; i < mixed.size(); ++i) {
    mixed[i] = weight * network[i] + (1.0F - weight) * average[i];
  }
  return mixed;
}

bool ForecastMixture::fallback() const {
  if (ticks_distrusted_ * tick_ms_ >= kPatienceMs) return true;
  return scores_.count() * tick_ms_ >= kPatienceMs &&
         scores_.network_score() < scores_.average_score();
}

}  // namespace remontoir
