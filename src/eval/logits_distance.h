// How far a model's logits are from reference numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace remontoir {

struct LogitsDistance {
  int64_t rows = 0;
  double max_abs = 0;       // largest difference of two logits
  double rms_relative = 0;  // rms of the differences / standard deviation of the reference
  double kl_mean = 0;       // of rows: KL(reference || model), nats
  double kl_max = 0;
  double top1_share = 0;  // rows whose likeliest token is the reference's
};

// Rows of both, compared one after the other. A logit that is NaN or infinite in one and not the
// same in the other makes every distance infinite.
class LogitsMeter {
 public:
  // Of one width.
  void Add(std::span<const float> reference, std::span<const float> logits);
  // Of at least one row.
  LogitsDistance Get() const;

 private:
  int64_t rows_ = 0;
  int64_t values_ = 0;
  int64_t top1_equal_ = 0;
  double max_abs_ = 0;
  double squares_ = 0;
  double reference_sum_ = 0;
  double reference_squares_ = 0;
  double kl_sum_ = 0;
  double kl_max_ = 0;
};

// Bounds of a distance; what isn't set isn't asked for.
struct LogitsBounds {
  std::optional<double> max_abs;
  std::optional<double> rms_relative;
  std::optional<double> kl_mean;
  std::optional<double> top1_share;  // at least
};

// What exceeds its bound, for people: "max_abs 0.2 is above 0.001"; empty: nothing does.
std::string Exceeded(const LogitsDistance& distance, const LogitsBounds& bounds);

}  // namespace remontoir
