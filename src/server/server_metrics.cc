// From the events of a generation to numbers.
#include "server/server_metrics.h"

#include <algorithm>

namespace remontoir {

void GenerationMeter::Begin(int64_t prompt_tokens, int64_t ttft_predicted_us) {
  ttft_predicted_us_ = ttft_predicted_us;
  metrics_->prompt_tokens.Add(prompt_tokens);
  metrics_->request_prompt_tokens.Observe(prompt_tokens);
}

void GenerationMeter::FirstToken(int64_t ttft_us) {
  ttft_us_ = ttft_us;
  metrics_->first_token.Observe(ttft_us);
  if (ttft_predicted_us_ <= 0) return;  // nothing was predicted
  // Beyond the last bound anyway where it is cut.
  constexpr int64_t kUsMax = int64_t{1} << 50;
  metrics_->prediction_ratio.Observe(std::min(ttft_us, kUsMax) * 1000 / ttft_predicted_us_);
}

void GenerationMeter::Token(std::optional<TimePoint>& last_token, TimePoint now) {
  metrics_->completion_tokens.Add();
  if (!ttft_us_.has_value()) FirstToken(ElapsedUs(began_, now));
  if (last_token.has_value()) metrics_->token_gap.Observe(ElapsedUs(*last_token, now));
  last_token = now;
}

void GenerationMeter::End(int64_t completion_tokens, TimePoint now) {
  metrics_->request.Observe(ElapsedUs(began_, now));
  metrics_->request_completion_tokens.Observe(completion_tokens);
}

}  // namespace remontoir
