// Pure arithmetic on finished records.
#include "loadgen/load_report.h"

#include <algorithm>
#include <utility>

namespace remontoir {
namespace {

constexpr double kMilliseconds = 1e3;

double Ms(int64_t from_us, int64_t to_us) {
  return static_cast<double>(to_us - from_us) / kMilliseconds;
}

// What a request that got no whole answer is filed under.
std::string KindOf(const LoadRecord& record) {
  const bool by_status =
      record.outcome == LoadOutcome::kRefused ||
      (record.outcome == LoadOutcome::kFailed && record.status != 0 && record.status != 200);
  return by_status ? std::to_string(record.status) : std::string(LoadOutcomeName(record.outcome));
}

// Values of every record, still to be sorted.
struct Samples {
  std::vector<double> ttft, short_ttft, long_ttft, total, itl, refusal;
  std::vector<double> batch_size, batch_window, queue, ttft_error;
};

void TakeFirstToken(const LoadRecord& record, Samples& samples) {
  double ttft = 0;
  if (!record.pieces_us.empty()) {
    ttft = Ms(record.intended_us, record.pieces_us.front());
  } else if (record.outcome == LoadOutcome::kTimedOut) {
    ttft = Ms(record.intended_us, record.ended_us);
  } else {
    return;
  }
  samples.ttft.push_back(ttft);
  (record.planned.is_long ? samples.long_ttft : samples.short_ttft).push_back(ttft);
  for (size_t i = 1; i < record.pieces_us.size(); ++i) {
    samples.itl.push_back(Ms(record.pieces_us[i - 1], record.pieces_us[i]));
  }
}

void TakeHeaders(const LoadRecord& record, Samples& samples) {
  const auto take = [](const std::optional<double>& value, std::vector<double>& values) {
    if (value) values.push_back(*value);
  };
  take(record.batch_size, samples.batch_size);
  take(record.batch_window_ms, samples.batch_window);
  take(record.queue_ms, samples.queue);
  if (record.ttft_predicted_ms && !record.pieces_us.empty()) {
    const double real_ms = Ms(record.sent_us, record.pieces_us.front());
    samples.ttft_error.push_back(std::abs(*record.ttft_predicted_ms - real_ms));
  }
}

void TakeOutcome(const LoadRecord& record, LoadReport& report, Samples& samples) {
  switch (record.outcome) {
    case LoadOutcome::kAnswered:
      ++report.answered;
      samples.total.push_back(Ms(record.intended_us, record.ended_us));
      TakeHeaders(record, samples);
      return;
    case LoadOutcome::kRefused:
      ++report.refused;
      samples.refusal.push_back(Ms(record.sent_us, record.first_byte_us));
      break;
    case LoadOutcome::kFailed:
    case LoadOutcome::kUnreachable:
    case LoadOutcome::kCutShort:
    case LoadOutcome::kTimedOut:
      ++report.failed;
      if (report.first_error.empty()) report.first_error = record.error;
      break;
  }
  ++report.not_answered[KindOf(record)];
}

void TakeTokens(const LoadRecord& record, LoadReport& report) {
  if (record.pieces_us.empty()) return;
  report.output_tokens += record.output_tokens >= 0 ? record.output_tokens
                                                    : static_cast<int64_t>(record.pieces_us.size());
  report.prompt_tokens +=
      record.prompt_tokens >= 0 ? record.prompt_tokens : record.planned.prompt_tokens;
}

void SetRates(std::span<const LoadRecord> records, LoadReport& report) {
  int64_t first_us = records.front().intended_us;
  int64_t last_us = first_us;
  for (const LoadRecord& record : records) {
    first_us = std::min(first_us, record.intended_us);
    last_us = std::max({last_us, record.intended_us, record.ended_us});
  }
  report.seconds = Ms(first_us, last_us) / kMilliseconds;
  if (report.seconds <= 0) return;
  report.answered_per_s = static_cast<double>(report.answered) / report.seconds;
  report.output_tokens_per_s = static_cast<double>(report.output_tokens) / report.seconds;
  report.prompt_tokens_per_s = static_cast<double>(report.prompt_tokens) / report.seconds;
}

}  // namespace

std::string_view LoadOutcomeName(LoadOutcome outcome) {
  switch (outcome) {
    case LoadOutcome::kAnswered: return "answered";
    case LoadOutcome::kRefused: return "refused";
    case LoadOutcome::kFailed: return "failed";
    case LoadOutcome::kUnreachable: return "unreachable";
    case LoadOutcome::kCutShort: return "cut short";
    case LoadOutcome::kTimedOut: break;
  }
  return "timed out";
}

LoadReport ReportOf(std::span<const LoadRecord> records) {
  LoadReport report;
  if (records.empty()) return report;
  Samples samples;
  for (const LoadRecord& record : records) {
    ++report.requests;
    if (record.planned.is_long) ++report.long_requests;
    TakeOutcome(record, report, samples);
    TakeFirstToken(record, samples);
    TakeTokens(record, report);
    if (record.started_us < 0) continue;
    const int64_t late_us = record.started_us - record.intended_us;
    if (late_us > kLateUs) ++report.late_sends;
    report.latest_send_ms = std::max(report.latest_send_ms, Ms(0, late_us));
  }
  report.ttft_ms = DistributionOf(std::move(samples.ttft));
  report.short_ttft_ms = DistributionOf(std::move(samples.short_ttft));
  report.long_ttft_ms = DistributionOf(std::move(samples.long_ttft));
  report.total_ms = DistributionOf(std::move(samples.total));
  report.itl_ms = DistributionOf(std::move(samples.itl));
  report.refusal_ms = DistributionOf(std::move(samples.refusal));
  report.batch_size = DistributionOf(std::move(samples.batch_size));
  report.batch_window_ms = DistributionOf(std::move(samples.batch_window));
  report.queue_ms = DistributionOf(std::move(samples.queue));
  report.ttft_error_ms = DistributionOf(std::move(samples.ttft_error));
  SetRates(records, report);
  return report;
}

}  // namespace remontoir
