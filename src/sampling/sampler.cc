// Sampling without sorting the vocabulary: a histogram of scaled logits finds the few to sort.
#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "sampling/exp.h"
#include "sampling/logprobs.h"

namespace remontoir {
namespace {

constexpr size_t kBlockTokens = 256;   // of the running sum that draws from all tokens
constexpr float kBucketsPerUnit = 32;  // of the histogram, a unit of scaled logit
constexpr int32_t kBucketCount = static_cast<int32_t>(-kExpUnderflow * kBucketsPerUnit) + 1;
constexpr uint64_t kDrawStream = 0;  // of the sequence's seed

Status CheckRange(const char* field, float value, float least, float greatest) {
  if (value >= least && value <= greatest) return Status::Ok();
  return InvalidArgument(std::string(field) + " must lie between " + std::to_string(least) +
                         " and " + std::to_string(greatest));
}

int32_t Bucket(float scaled) { return static_cast<int32_t>(-scaled * kBucketsPerUnit); }

// The first token with this logit.
TokenId Find(std::span<const float> logits, float logit) {
  size_t i = 0;
  while (DefinedLogit(logits[i]) != logit) ++i;
  return TokenId(static_cast<int32_t>(i));
}

}  // namespace

Status ValidateSamplingParams(const SamplingParams& params, int32_t vocabulary_size) {
  constexpr float kMax = std::numeric_limits<float>::max();
  REM_RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, kMax));
  REM_RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 0, 1));
  REM_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  REM_RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -2, 2));
  REM_RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -2, 2));
  if (!(params.repetition_penalty > 0) || std::isinf(params.repetition_penalty)) {
    return InvalidArgument("repetition_penalty must be a number above 0");
  }
  if (params.top_k < 0) return InvalidArgument("top_k must not be negative");
  if (params.logit_bias.size() > size_t{kLogitBiasMax}) {
    return InvalidArgument("logit_bias holds more than " + std::to_string(kLogitBiasMax) +
                           " tokens");
  }
  for (const LogitBias& entry : params.logit_bias) {
    if (Index(entry.token) < 0 || Index(entry.token) >= vocabulary_size) {
      return InvalidArgument("logit_bias: token " + std::to_string(Index(entry.token)) +
                             " is not in the vocabulary");
    }
    REM_RETURN_IF_ERROR(CheckRange("logit_bias", entry.bias, -100, 100));
  }
  return Status::Ok();
}

bool UsesTokenCounts(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.frequency_penalty != 0 ||
         params.presence_penalty != 0;
}

Sampler::Sampler(int32_t vocabulary_size)
    : adjusted_(vocabulary_size),
      scaled_(vocabulary_size),
      weights_(vocabulary_size),
      block_weights_((vocabulary_size + kBlockTokens - 1) / kBlockTokens),
      bucket_counts_(kBucketCount),
      bucket_weights_(kBucketCount) {
  REM_CHECK(vocabulary_size > 0, "a vocabulary has tokens");
  candidates_.reserve(vocabulary_size);
}

TokenId Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                        const TokenCounts* counts, int64_t position) {
  REM_CHECK(logits.size() == adjusted_.size(), "logits of another vocabulary");
  const std::span<const float> penalised = Penalise(logits, params, counts);
  const float greatest = GreatestLogit(penalised);
  if (params.temperature < kTemperatureMin || greatest == kImpossibleLogit) {
    return Find(penalised, greatest);
  }

  Weigh(penalised, greatest, params.temperature);
  const double uniform = CounterRandom(params.seed, kDrawStream).Uniform(position);
  const bool keeps_all = params.top_k == 0 && params.top_p >= 1 && params.min_p <= 0;
  return keeps_all ? DrawFromAll(uniform) : DrawFromBest(params, uniform);
}

std::span<const float> Sampler::Penalise(std::span<const float> logits,
                                         const SamplingParams& params, const TokenCounts* counts) {
  if (params.logit_bias.empty() && !UsesTokenCounts(params)) return logits;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const LogitBias& entry : params.logit_bias) adjusted_[Index(entry.token)] += entry.bias;
  if (!UsesTokenCounts(params)) return adjusted_;
  REM_CHECK(counts != nullptr, "penalties need the sequence's counts");
  for (const TokenId token : counts->seen()) {
    float& logit = adjusted_[Index(token)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    const int32_t count = counts->output_count(token);
    if (count == 0) continue;
    logit -= params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
  }
  return adjusted_;
}

void Sampler::Weigh(std::span<const float> logits, float greatest, float temperature) {
  const float factor = 1 / temperature;
  for (size_t i = 0; i < logits.size(); ++i) {
    scaled_[i] = (DefinedLogit(logits[i]) - greatest) * factor;
    weights_[i] = ExpOfNonPositive(scaled_[i]);
  }
}

TokenId Sampler::DrawFromAll(double uniform) {
  double total = 0;
  for (size_t block = 0; block < block_weights_.size(); ++block) {
    const size_t begin = block * kBlockTokens;
    const size_t count = std::min(kBlockTokens, weights_.size() - begin);
    std::array<double, 4> lanes = {};
    for (size_t i = 0; i < count; ++i) lanes[i % 4] += weights_[begin + i];
    block_weights_[block] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    total += block_weights_[block];
  }
  // Rounding may leave a rest beyond the end: then the last block that has a weight is as good.
  double left = uniform * total;
  size_t drawn_block = 0;
  for (size_t block = 0; block < block_weights_.size(); ++block) {
    if (block_weights_[block] == 0) continue;
    drawn_block = block;
    if (left < block_weights_[block]) break;
    left -= block_weights_[block];
  }
  size_t drawn = 0;
  double sum = 0;
  const size_t end = std::min(weights_.size(), (drawn_block + 1) * kBlockTokens);
  for (size_t i = drawn_block * kBlockTokens; i < end && sum <= left; ++i) {
    if (weights_[i] == 0) continue;
    drawn = i;
    sum += weights_[i];
  }
  return TokenId(static_cast<int32_t>(drawn));
}

TokenId Sampler::DrawFromBest(const SamplingParams& params, double uniform) {
  GatherCandidates(params);
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.scaled != b.scaled ? a.scaled > b.scaled : a.token < b.token;
  });
  const size_t kept = CountKept(params);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += candidates_[i].weight;
  const double target = uniform * total;
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += candidates_[i].weight;
    if (sum > target) return TokenId(candidates_[i].token);
  }
  return TokenId(candidates_[kept - 1].token);
}

void Sampler::GatherCandidates(const SamplingParams& params) {
  std::fill(bucket_counts_.begin(), bucket_counts_.end(), 0);
  std::fill(bucket_weights_.begin(), bucket_weights_.end(), 0.0);
  double total = 0;
  for (size_t i = 0; i < scaled_.size(); ++i) {
    if (weights_[i] == 0) continue;
    const int32_t bucket = Bucket(scaled_[i]);
    ++bucket_counts_[bucket];
    bucket_weights_[bucket] += weights_[i];
    total += weights_[i];
  }
  // Whole buckets, best first, until they hold top_k tokens, or without it the share top_p of all
  // weight. (With both, top_p chooses among the top_k.)
  int32_t buckets = 0;
  int64_t count = 0;
  double weight = 0;
  const bool by_count = params.top_k > 0;
  const double weight_wanted = params.top_p < 1 ? params.top_p * total : total;
  for (; buckets < kBucketCount; ++buckets) {
    if (by_count ? count >= params.top_k : count > 0 && weight >= weight_wanted) break;
    count += bucket_counts_[buckets];
    weight += bucket_weights_[buckets];
  }
  total_weight_ = total;
  // min_p comes last, so it may thin out the candidates early only where top_p doesn't count them.
  const float weight_min = params.top_p < 1 ? 0 : params.min_p;
  candidates_.clear();
  for (size_t i = 0; i < scaled_.size(); ++i) {
    if (weights_[i] == 0 || weights_[i] < weight_min || Bucket(scaled_[i]) >= buckets) continue;
    candidates_.push_back({scaled_[i], weights_[i], static_cast<int32_t>(i)});
  }
}

size_t Sampler::CountKept(const SamplingParams& params) const {
  size_t kept = candidates_.size();
  if (params.top_k > 0) kept = std::min(kept, static_cast<size_t>(params.top_k));
  if (params.top_p < 1) {
    double total = total_weight_;
    if (params.top_k > 0) {
      total = 0;
      for (size_t i = 0; i < kept; ++i) total += candidates_[i].weight;
    }
    double sum = candidates_[0].weight;
    size_t reached = 1;
    while (reached < kept && sum < params.top_p * total) sum += candidates_[reached++].weight;
    kept = reached;
  }
  while (kept > 1 && candidates_[kept - 1].weight < params.min_p) --kept;
  return kept;
}

}  // namespace remontoir
