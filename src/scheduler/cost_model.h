// What a round costs: six numbers of a model on a machine, and how they are learnt from rounds.
#pragma once

#include <array>
#include <cstdint>

namespace remontoir {

// What a round computes, as far as its time depends on it.
struct RoundWork {
  int64_t prefill_tokens = 0;
  int64_t decode_rows = 0;
  int64_t decode_keys = 0;  // that its decode rows see, summed
  double prefill_keys = 0;  // sum over its prompt shares of tokens x mean keys before each token
  int64_t seals = 0;        // segments that it seals, times layers

  void AddDecode(int64_t keys) {
    ++decode_rows;
    decode_keys += keys;
  }
  void RemoveDecode(int64_t keys) {
    --decode_rows;
    decode_keys -= keys;
  }
  // `tokens` of a prompt of which `computed` are in their pages.
  void AddPrefill(int64_t tokens, int64_t computed) {
    prefill_tokens += tokens;
    prefill_keys += static_cast<double>(tokens) *
                    (static_cast<double>(computed) + 0.5 * static_cast<double>(tokens));
  }
};

// round + prefill_token P + decode_row D + decode_key sum(keys) + prefill_key sum(P_i mean keys_i)
// + seal S, in microseconds. Starts with a small model's costs on two cores.
struct CostModel {
  double round_us = 6'300;
  double prefill_token_us = 1'000;
  double decode_row_us = 1'710;
  double decode_key_us = 1.5;
  double prefill_key_us = 0.33;
  double seal_us = 700;

  double PredictUs(const RoundWork& work) const {
    return round_us + prefill_token_us * static_cast<double>(work.prefill_tokens) +
           decode_row_us * static_cast<double>(work.decode_rows) +
           decode_key_us * static_cast<double>(work.decode_keys) +
           prefill_key_us * work.prefill_keys + seal_us * static_cast<double>(work.seals);
  }
  // Of computing `tokens` more behind `computed` ones, without the round's own cost.
  double PrefillUs(int64_t tokens, int64_t computed) const {
    RoundWork work;
    work.AddPrefill(tokens, computed);
    return PredictUs(work) - round_us;
  }
  double SealUs(int64_t seals) const { return seal_us * static_cast<double>(seals); }
  // The most seals that take at most `us`; 0 to 2^30.
  int64_t SealsWithin(double us) const;
  // The most tokens behind `computed` ones that take at most `us`, without the round's own cost;
  // 0 to 2^30.
  int64_t TokensWithin(double us, int64_t computed) const;
};

// Learns a cost model from finished rounds: least squares of relative errors over the last rounds
// (older ones fade), no cost below zero. What the last rounds don't tell apart stays as it was.
class CostFit {
 public:
  explicit CostFit(const CostModel& start);

  // A round with this work took so long. Outliers count as the largest error that is believed.
  void Add(const RoundWork& work, int64_t measured_us);

  const CostModel& model() const { return model_; }
  int64_t rounds() const { return rounds_; }

 private:
  static constexpr int kTerms = 6;
  using Terms = std::array<double, kTerms>;

  static Terms TermsOf(const RoundWork& work);
  void Solve();

  CostModel model_;
  Terms costs_{};                        // in the units of TermsOf
  std::array<Terms, kTerms> moments_{};  // sum of weighted products of terms
  Terms targets_{};                      // sum of weighted terms x time
  int64_t rounds_ = 0;
};

}  // namespace remontoir
