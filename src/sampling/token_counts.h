// Which tokens a sequence has seen, and how often it drew each: what penalties look at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/token_id.h"

namespace remontoir {

// Storage for any sequence is taken once: 4 bytes a vocabulary entry, 4 a position. Adding is O(1);
// Reset costs as many steps as tokens were seen.
class TokenCounts {
 public:
  TokenCounts(int32_t vocabulary_size, int32_t tokens_max);

  void AddPrompt(TokenId token) { Mark(token); }
  void AddOutput(TokenId token) { ++Mark(token); }
  void Reset();

  // Each token of prompt and output once, in order of first appearance.
  std::span<const TokenId> seen() const { return seen_; }
  // How often the token stands in the output.
  int32_t output_count(TokenId token) const {
    const int32_t mark = mark_[Index(token)];
    return mark == 0 ? 0 : mark - 1;
  }

 private:
  int32_t& Mark(TokenId token);

  std::vector<int32_t> mark_;  // [vocabulary] 0: never seen; else 1 + count in the output
  std::vector<TokenId> seen_;
};

}  // namespace remontoir
