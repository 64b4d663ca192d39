// Cuts text into the pieces inside which a byte-level vocabulary may merge.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

// The stages of a named pre-tokenizer (tokenizer.ggml.pre). Each stage is a pattern: its matches
// and the text between them are the pieces, which the next stage cuts further. Const use is
// thread-safe.
class Pretokenizer {
 public:
  // Unsupported, naming the key, for a name that the table lacks.
  static Result<Pretokenizer> Create(std::string_view name);

  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Appends the pieces of a valid UTF-8 text in order; together they are the text.
  void Split(std::string_view text, std::vector<std::string_view>& pieces) const;

  // The model wants its text in Unicode's composed form (NFC) first.
  bool normalizes() const { return normalizes_; }
  // A piece that is a token as a whole is taken as it is, whatever the merges say.
  bool prefers_whole_pieces() const { return prefers_whole_pieces_; }

 private:
  class Pattern;
  Pretokenizer();

  std::vector<std::unique_ptr<Pattern>> stages_;
  bool normalizes_ = false;
  bool prefers_whole_pieces_ = false;
};

}  // namespace remontoir
