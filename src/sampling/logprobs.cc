// Sums in eight lanes of doubles, joined in order.
#include "sampling/logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sampling/exp.h"

namespace remontoir {

float DefinedLogit(float logit) {
  // The comparison is false for NaN.
  const float defined =
      logit >= -std::numeric_limits<float>::max() ? logit : -std::numeric_limits<float>::infinity();
  return std::min(defined, std::numeric_limits<float>::max());
}

double LogSumExp(std::span<const float> logits) {
  float greatest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) greatest = std::max(greatest, DefinedLogit(logit));
  if (greatest == -std::numeric_limits<float>::infinity()) return 0;

  constexpr size_t kLanes = 8;
  std::array<double, kLanes> lanes = {};
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += ExpOfNonPositive(DefinedLogit(logits[i + lane]) - greatest);
    }
  }
  for (size_t i = whole; i < logits.size(); ++i) {
    lanes[i - whole] += ExpOfNonPositive(DefinedLogit(logits[i]) - greatest);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return greatest + std::log(sum);
}

float LogprobAt(std::span<const float> logits, double log_sum, TokenId token) {
  const double logprob = DefinedLogit(logits[Index(token)]) - log_sum;
  return static_cast<float>(std::max(logprob, double{kLogprobMin}));
}

int32_t TopTokens(std::span<const float> logits, std::span<TokenId> top) {
  size_t count = 0;
  if (top.empty()) return 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = DefinedLogit(logits[i]);
    const auto beats = [&](TokenId other) { return logit > DefinedLogit(logits[Index(other)]); };
    if (count == top.size() && !beats(top[count - 1])) continue;
    if (count < top.size()) ++count;
    size_t place = count - 1;
    for (; place > 0 && beats(top[place - 1]); --place) top[place] = top[place - 1];
    top[place] = TokenId(static_cast<int32_t>(i));
  }
  return static_cast<int32_t>(count);
}

}  // namespace remontoir
