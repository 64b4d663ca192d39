// From the events of a generation to numbers.
#include "server/server_metrics.h"

namespace remontoir {

void GenerationMeter::Begin(int64_t prompt_tokens) {
  metrics_->prompt_tokens.Add(prompt_tokens);
  metrics_->request_prompt_tokens.Observe(prompt_tokens);
}

void GenerationMeter::Token(std::optional<TimePoint>& last_token, TimePoint now) {
  metrics_->completion_tokens.Add();
  if (!has_token_) metrics_->first_token.Observe(ElapsedUs(began_, now));
  has_token_ = true;
  if (last_token.has_value()) metrics_->token_gap.Observe(ElapsedUs(*last_token, now));
  last_token = now;
}

void GenerationMeter::End(int64_t completion_tokens, TimePoint now) {
  metrics_->request.Observe(ElapsedUs(began_, now));
  metrics_->request_completion_tokens.Observe(completion_tokens);
}

}  // namespace remontoir
