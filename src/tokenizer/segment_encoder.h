// What a kind of vocabulary has to do: text without special tokens into tokens, tokens into bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sampling/token_id.h"

namespace remontoir {

// Const use is thread-safe.
class SegmentEncoder {
 public:
  virtual ~SegmentEncoder() = default;

  // Appends the tokens of a valid UTF-8 text. Every text is encodable; a byte for which the
  // vocabulary has nothing is left out.
  virtual void Encode(std::string_view text, std::vector<TokenId>& tokens) const = 0;

  // The bytes that a token stands for.
  virtual std::string TokenBytes(TokenId token) const = 0;
};

}  // namespace remontoir
