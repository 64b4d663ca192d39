// Sums in eight lanes of doubles, joined in order.
#include "sampling/logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sampling/exp.h"

namespace remontoir {

float GreatestLogit(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(kImpossibleLogit);
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = std::max(lanes[lane], DefinedLogit(logits[i + lane]));
    }
  }
  for (size_t i = whole; i < logits.size(); ++i) {
    lanes[i - whole] = std::max(lanes[i - whole], DefinedLogit(logits[i]));
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

double LogSumExp(std::span<const float> logits) {
  const float greatest = GreatestLogit(logits);
  constexpr size_t kBlock = 256;  // weights of a block first, then their sum: two vector loops
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> lanes = {};
  std::array<float, kBlock> weights;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      weights[i] = ExpOfNonPositive(DefinedLogit(logits[begin + i]) - greatest);
    }
    std::fill(weights.begin() + count, weights.end(), 0.0f);
    for (size_t i = 0; i < kBlock; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
    }
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
  if (top.empty()) return 0;
  size_t count = 0;
  float last = 0;  // logit of the list's last token once the list is full
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = DefinedLogit(logits[i]);
    if (count == top.size() && logit <= last) continue;
    if (count < top.size()) ++count;
    size_t place = count - 1;
    for (; place > 0 && logit > DefinedLogit(logits[Index(top[place - 1])]); --place) {
      top[place] = top[place - 1];
    }
    top[place] = TokenId(static_cast<int32_t>(i));
    last = DefinedLogit(logits[Index(top[count - 1])]);
  }
  return static_cast<int32_t>(count);
}

}  // namespace remontoir
