// Sums and sorted values.
#include "simulation/run_metrics.h"

#include <algorithm>
#include <utility>

namespace remontoir {
namespace {

double Ms(int64_t us) { return static_cast<double>(us) / 1000; }

void AddRounds(const Replayed& replayed, int64_t from_us, int64_t to_us, RunMetrics& metrics) {
  double busy_us = 0;
  double occupied_us = 0;
  for (const RoundRecord& round : replayed.rounds) {
    if (round.begin_us < from_us || round.begin_us >= to_us) continue;
    busy_us += round.us;
    occupied_us += static_cast<double>(round.us) * round.occupied;
  }
  if (busy_us > 0 && replayed.slots > 0)
    metrics.utilisation = occupied_us / busy_us / replayed.slots;
  const double span_us =
      static_cast<double>(std::min(to_us, replayed.end_us) - std::max(from_us, replayed.begin_us));
  if (span_us > 0) metrics.busy = busy_us / span_us;
}

void AddTokenRate(const Replayed& replayed, int64_t from_us, int64_t to_us, RunMetrics& metrics) {
  // Spread evenly over each answer, so that a window's edge cuts where it lies.
  double tokens = 0;
  for (const RequestRecord& record : replayed.requests) {
    if (record.first_token_us < 0) continue;
    const double begin = static_cast<double>(record.arrived_us + record.first_token_us);
    const double end =
        static_cast<double>(record.arrived_us + std::max(record.ended_us, record.first_token_us));
    const double from = std::clamp(static_cast<double>(from_us), begin, end);
    const double to = std::clamp(static_cast<double>(to_us), begin, end);
    const bool inside = begin >= static_cast<double>(from_us) && begin < static_cast<double>(to_us);
    const double share = end > begin ? (to - from) / (end - begin) : (inside ? 1 : 0);
    tokens += record.tokens * share;
  }
  const double span_us =
      static_cast<double>(std::min(to_us, replayed.end_us) - std::max(from_us, replayed.begin_us));
  if (span_us > 0) metrics.tokens_per_s = tokens / span_us * 1e6;
}

}  // namespace

RunMetrics MetricsOf(const Replayed& replayed, int64_t from_us, int64_t to_us) {
  RunMetrics metrics;
  std::vector<double> ttft_ms;
  const auto counts = [&](const RequestRecord& record) {
    return record.arrived_us >= from_us && record.arrived_us < to_us;
  };
  for (const RequestRecord& record : replayed.requests) {
    if (!counts(record)) continue;
    ++metrics.requests;
    if (record.refused) ++metrics.refused;
    if (record.first_token_us >= 0) ttft_ms.push_back(Ms(record.first_token_us));
  }
  std::vector<double> itl_ms;
  double stall_ms = 0;
  for (const TokenGap& gap : replayed.gaps) {
    if (!counts(replayed.requests[static_cast<size_t>(gap.request)])) continue;
    itl_ms.push_back(Ms(gap.us));
    stall_ms += Ms(std::max<int64_t>(0, gap.us - kStallFromUs));
  }
  if (!ttft_ms.empty()) metrics.stall_ms = stall_ms / static_cast<double>(ttft_ms.size());
  metrics.ttft_ms = DistributionOf(std::move(ttft_ms), Quantile);
  metrics.itl_ms = DistributionOf(std::move(itl_ms), Quantile);
  AddRounds(replayed, from_us, to_us, metrics);
  AddTokenRate(replayed, from_us, to_us, metrics);
  return metrics;
}

RunMetrics MeanOf(std::span<const RunMetrics> runs) {
  RunMetrics mean;
  const auto count = static_cast<double>(runs.size());
  const auto add = [count](double& sum, double value) { sum += value / count; };
  const auto add_all = [&add](Distribution& sum, const Distribution& value) {
    add(sum.mean, value.mean);
    add(sum.p50, value.p50);
    add(sum.p95, value.p95);
    add(sum.p99, value.p99);
    add(sum.max, value.max);
    add(sum.std, value.std);
  };
  for (const RunMetrics& run : runs) {
    add(mean.requests, run.requests);
    add(mean.refused, run.refused);
    add_all(mean.ttft_ms, run.ttft_ms);
    add_all(mean.itl_ms, run.itl_ms);
    add(mean.stall_ms, run.stall_ms);
    add(mean.utilisation, run.utilisation);
    add(mean.busy, run.busy);
    add(mean.tokens_per_s, run.tokens_per_s);
  }
  return mean;
}

}  // namespace remontoir
