// Tokens in, text out, as they come: never half a character.
#pragma once

#include <string>

#include "sampling/token_id.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

// What it emits, put together, is what Tokenizer::Decode makes of all the tokens.
class StreamDecoder {
 public:
  // The tokenizer must outlive it.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that this token completes (valid UTF-8); often empty in the middle of a character.
  std::string Push(TokenId token);

  // At the end: U+FFFD for a character that stays incomplete. The decoder is as new afterwards.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string held_;  // at most 3 bytes between calls
};

}  // namespace remontoir
