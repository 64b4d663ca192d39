// Marks by token and a list of the marked ones.
#include "sampling/token_counts.h"

#include <algorithm>

namespace remontoir {

TokenCounts::TokenCounts(int32_t vocabulary_size, int32_t tokens_max) : mark_(vocabulary_size, 0) {
  seen_.reserve(std::min(vocabulary_size, tokens_max));
}

int32_t& TokenCounts::Mark(TokenId token) {
  int32_t& mark = mark_[Index(token)];
  if (mark == 0) {
    mark = 1;
    seen_.push_back(token);
  }
  return mark;
}

void TokenCounts::Reset() {
  for (const TokenId token : seen_) mark_[Index(token)] = 0;
  seen_.clear();
}

}  // namespace remontoir
