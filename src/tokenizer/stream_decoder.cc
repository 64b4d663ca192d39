// Holds back the bytes of an unfinished character.
#include "tokenizer/stream_decoder.h"

#include <string_view>
#include <utility>

#include "text/utf8.h"

namespace remontoir {

std::string StreamDecoder::Push(TokenId token) {
  if (skip_special_ && tokenizer_.IsControl(token)) return {};
  held_ += tokenizer_.TokenBytes(token);
  const size_t complete = CompleteUtf8Prefix(held_);
  std::string text = ReplaceInvalidUtf8(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return text;
}

std::string StreamDecoder::Finish() { return ReplaceInvalidUtf8(std::exchange(held_, {})); }

}  // namespace remontoir
