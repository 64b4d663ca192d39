// How far one way of computing predicts from another: perplexities, divergence, likeliest tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace remontoir {

struct PredictionDistance {
  int64_t predictions = 0;
  double perplexity_reference = 0;
  double perplexity = 0;
  // Of predictions: KL(reference || other), nats.
  double kl_mean = 0;
  double kl_p99 = 0;
  double top1_agreement = 0;  // predictions with the same likeliest token, as a part

  // Relative: 0.01 where the other's perplexity is 1 % higher.
  double perplexity_change() const;
};

class PredictionMeter {
 public:
  // Logits of one width for the same prediction, and the token that came.
  void Add(std::span<const float> reference, std::span<const float> other, int32_t next);
  PredictionDistance Get() const;

 private:
  std::vector<double> divergences_;
  double loss_reference_ = 0;
  double loss_ = 0;
  int64_t same_top_ = 0;
};

}  // namespace remontoir
