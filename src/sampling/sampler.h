// Picks the next token from a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "sampling/sampling_params.h"
#include "sampling/token_counts.h"
#include "sampling/token_id.h"

namespace remontoir {

// Temperatures below it are greedy: dividing by them would leave nothing but the best token.
inline constexpr float kTemperatureMin = 1e-5f;

// kInvalidArgument with the field's name: a value out of its range (as sampling_params.h states
// it), or a logit_bias token that the vocabulary doesn't have.
Status ValidateSamplingParams(const SamplingParams& params, int32_t vocabulary_size);

// True when Sample reads the counts.
bool UsesTokenCounts(const SamplingParams& params);

// A pure function with a workspace: the result depends on Sample's arguments alone, not on earlier
// calls. The workspace is taken once, 24 bytes a vocabulary entry. One thread at a time.
//
// The steps, in this order:
//   1. logit_bias is added; 2. repetition_penalty over tokens of prompt and output, then
//   frequency_penalty and presence_penalty over tokens of the output;
//   3. temperature: weight = e^((logit - greatest) / temperature); below e^-87 a weight is none;
//   4. top_k: the k greatest; 5. top_p: of these the fewest greatest whose share reaches p;
//   6. min_p: of these the ones with at least p times the greatest weight.
// Equal logits stand in order of ids, lower first. Greedy (temperature below kTemperatureMin) takes
// the first one after step 2. Not-a-number logits are never drawn; +infinity counts as the largest
// float. If every logit is -infinity or not a number, token 0 is drawn.
class Sampler {
 public:
  explicit Sampler(int32_t vocabulary_size);

  // logits: [vocabulary]. `position` of the drawn token in its sequence is the counter of its
  // random number. `counts` may be null when UsesTokenCounts is false.
  TokenId Sample(std::span<const float> logits, const SamplingParams& params,
                 const TokenCounts* counts, int64_t position);

 private:
  struct Candidate {
    float scaled;
    float weight;
    int32_t token;
  };

  std::span<const float> Penalise(std::span<const float> logits, const SamplingParams& params,
                                  const TokenCounts* counts);
  void Weigh(std::span<const float> logits, float greatest, float temperature);
  TokenId DrawFromAll(double uniform);
  TokenId DrawFromBest(const SamplingParams& params, double uniform);
  // Fills candidates_ with at least all tokens that top_k, top_p and min_p can keep.
  void GatherCandidates(const SamplingParams& params);
  // How many of the sorted candidates stay.
  size_t CountKept(const SamplingParams& params) const;

  std::vector<float> adjusted_;  // [vocabulary] logits after steps 1 and 2
  std::vector<float> scaled_;    // [vocabulary] (logit - greatest) / temperature, <= 0
  std::vector<float> weights_;   // [vocabulary] e^scaled
  std::vector<double> block_weights_;
  std::vector<int32_t> bucket_counts_;
  std::vector<double> bucket_weights_;
  double total_weight_ = 0;  // of all tokens, before top_k
  std::vector<Candidate> candidates_;
};

}  // namespace remontoir
