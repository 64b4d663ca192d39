// Text to tokens and back, for the vocabulary of one model.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sampling/token_id.h"
#include "tokenizer/segment_encoder.h"
#include "tokenizer/template_span.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {

enum class SpecialTokens {
  kAsText,  // a control token's spelling in the text is text
  kParse,   // it is the token
};

// Const use is thread-safe. Tokens given must be in the vocabulary (Contains).
class Tokenizer {
 public:
  // Errors name the metadata key; Unsupported for kinds of vocabularies that this build lacks.
  static Result<Tokenizer> Create(Vocabulary vocabulary);
  static Result<Tokenizer> FromModelFile(const ModelFile& file);

  // Adds no BOS or EOS. Each maximal invalid part of the text counts as U+FFFD.
  std::vector<TokenId> Encode(std::string_view text, SpecialTokens mode) const;

  // A rendered chat. Special tokens are parsed in what the template wrote; content is text, unless
  // it is trusted. The text between special tokens is tokenized as one, across the spans' borders.
  std::vector<TokenId> EncodeChat(std::span<const TemplateSpan> spans,
                                  bool trust_content_specials) const;

  // The text of the tokens' bytes; each maximal invalid part becomes U+FFFD. skip_special leaves
  // control tokens out, else their spelling is written.
  std::string Decode(std::span<const TokenId> tokens, bool skip_special) const;

  // The bytes a token stands for, often a part of a character.
  std::string_view TokenBytes(TokenId token) const { return bytes_[Checked(token)]; }
  // As the vocabulary lists it.
  const std::string& TokenSpelling(TokenId token) const { return vocabulary_->Spelling(token); }

  bool Contains(TokenId token) const {
    return Index(token) >= 0 && Index(token) < vocabulary_size();
  }
  bool IsControl(TokenId token) const { return vocabulary_->Kind(token) == TokenKind::kControl; }
  bool IsEndOfGeneration(TokenId token) const { return vocabulary_->IsEndOfGeneration(token); }
  int32_t vocabulary_size() const { return vocabulary_->size(); }
  std::optional<TokenId> bos() const { return vocabulary_->bos(); }
  std::optional<TokenId> eos() const { return vocabulary_->eos(); }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  // Bytes [begin, end) of a text in which special tokens are parsed.
  struct Region {
    size_t begin;
    size_t end;
  };

  Tokenizer(std::unique_ptr<Vocabulary> vocabulary, std::unique_ptr<SegmentEncoder> encoder);
  size_t Checked(TokenId token) const;
  std::vector<TokenId> EncodeRegions(std::string_view text, std::span<const Region> regions) const;

  std::unique_ptr<Vocabulary> vocabulary_;  // the encoder refers to it
  std::unique_ptr<SegmentEncoder> encoder_;
  TokenTrie special_;               // what cuts a text into segments
  std::vector<std::string> bytes_;  // by token
};

}  // namespace remontoir
