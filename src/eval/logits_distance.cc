// Sums in double over rows.
#include "eval/logits_distance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/check.h"
#include "sampling/logprobs.h"

namespace remontoir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double KlDivergence(std::span<const float> reference, std::span<const float> logits) {
  const double reference_sum = LogSumExp(reference);
  const double sum = LogSumExp(logits);
  double divergence = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = double{DefinedLogit(reference[i])} - reference_sum;
    const double log_q = double{DefinedLogit(logits[i])} - sum;
    divergence += std::exp(log_p) * (log_p - log_q);
  }
  return std::max(divergence, 0.0);
}

auto Best(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

}  // namespace

void LogitsMeter::Add(std::span<const float> reference, std::span<const float> logits) {
  REM_CHECK(reference.size() == logits.size() && !logits.empty(), "rows of one width");
  for (size_t i = 0; i < logits.size(); ++i) {
    const double wanted = reference[i];
    const double found = logits[i];
    // Two equal infinities or two NaNs have no difference.
    const bool same = wanted == found || (std::isnan(wanted) && std::isnan(found));
    double difference = same ? 0 : std::fabs(found - wanted);
    if (std::isnan(difference)) difference = kInfinity;
    max_abs_ = std::max(max_abs_, difference);
    squares_ += difference * difference;
    if (!std::isfinite(wanted)) continue;
    reference_sum_ += wanted;
    reference_squares_ += wanted * wanted;
    ++values_;
  }
  const double divergence = std::isinf(max_abs_) ? kInfinity : KlDivergence(reference, logits);
  kl_sum_ += divergence;
  kl_max_ = std::max(kl_max_, divergence);
  top1_equal_ += Best(reference) == Best(logits) ? 1 : 0;
  ++rows_;
}

LogitsDistance LogitsMeter::Get() const {
  REM_CHECK(rows_ > 0, "a distance of some rows");
  const auto values = static_cast<double>(std::max<int64_t>(values_, 1));
  const double mean = reference_sum_ / values;
  const double deviation = std::sqrt(std::max(reference_squares_ / values - mean * mean, 0.0));
  const double rms = std::sqrt(squares_ / values);
  const auto rows = static_cast<double>(rows_);
  return {.rows = rows_,
          .max_abs = max_abs_,
          .rms_relative = rms == 0 ? 0 : rms / deviation,
          .kl_mean = kl_sum_ / rows,
          .kl_max = kl_max_,
          .top1_share = static_cast<double>(top1_equal_) / rows};
}

std::string Exceeded(const LogitsDistance& distance, const LogitsBounds& bounds) {
  std::string text;
  const auto check = [&text](const char* name, double value, std::optional<double> bound,
                             bool at_least) {
    if (!bound.has_value() || (at_least ? value >= *bound : value <= *bound)) return;
    char line[128];
    std::snprintf(line, sizeof line, "%s%s %.4g is %s %.4g", text.empty() ? "" : ", ", name, value,
                  at_least ? "below" : "above", *bound);
    text += line;
  };
  check("max_abs", distance.max_abs, bounds.max_abs, false);
  check("rms_relative", distance.rms_relative, bounds.rms_relative, false);
  check("kl_mean", distance.kl_mean, bounds.kl_mean, false);
  check("top1_share", distance.top1_share, bounds.top1_share, true);
  return text;
}

}  // namespace remontoir
