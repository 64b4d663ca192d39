// SentencePiece vocabularies: pieces of text in which U+2581 stands for a blank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/segment_encoder.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {

// What its two kinds (merging by score, and the likeliest path) share: the form of text and pieces,
// user-defined pieces, and bytes for what no piece spells.
class SentencePiece : public SegmentEncoder {
 public:
  void Encode(std::string_view text, std::vector<TokenId>& tokens) const override;
  std::string TokenBytes(TokenId token) const override;

 protected:
  // The vocabulary must outlive it.
  explicit SentencePiece(const Vocabulary& vocabulary);

  // Scores are what these vocabularies choose by.
  static Status Check(const Vocabulary& vocabulary);

  // The tokens of a text in which blanks are U+2581 already. Not empty.
  virtual void EncodeEscaped(std::string_view text, std::vector<TokenId>& tokens) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // True for the kinds of pieces that text is made of (control tokens and bytes are not).
  bool MatchesText(TokenId token) const;
  // The longest user-defined piece at the text's begin.
  std::optional<TokenTrie::Match> UserDefined(std::string_view text) const {
    return user_defined_.Longest(text);
  }
  // A character that no piece spells: its bytes, or the unknown token (once for neighbours).
  void AppendUnknown(std::string_view character, std::vector<TokenId>& tokens) const;

 private:
  const Vocabulary& vocabulary_;
  TokenTrie user_defined_;
  std::array<TokenId, 256> byte_tokens_;
  bool has_bytes_ = true;
};

// U+2581, the visible blank.
inline constexpr std::string_view kVisibleBlank = "\u2581";

// A user-defined piece as text has it when blanks are visible: files write it with real ones. Other
// pieces as they are.
std::string EscapedSpelling(const Vocabulary& vocabulary, TokenId token);

// The byte that a token spelled <0xHH> stands for; -1 for any other spelling.
int ByteOfSpelling(std::string_view spelling);

}  // namespace remontoir
