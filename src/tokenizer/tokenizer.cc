// Special tokens cut a text into segments; the vocabulary's encoder does the segments.
#include "tokenizer/tokenizer.h"

#include "base/check.h"
#include "text/utf8.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/sentence_piece_bpe.h"
#include "tokenizer/unigram.h"

namespace remontoir {
namespace {

Result<std::unique_ptr<SegmentEncoder>> CreateEncoder(const Vocabulary& vocabulary) {
  if (vocabulary.model() == "gpt2") return ByteLevelBpe::Create(vocabulary);
  if (vocabulary.model() == "llama") return SentencePieceBpe::Create(vocabulary);
  if (vocabulary.model() == "t5") return Unigram::Create(vocabulary);
  return Unsupported("tokenizer.ggml.model: this build has no tokenizer named \"" +
                     vocabulary.model() + "\"");
}

// Converters fill a vocabulary up to the embedding's rows with tokens that name their own number.
bool IsFiller(const Vocabulary& vocabulary, TokenId token) {
  return vocabulary.Spelling(token) == "[PAD" + std::to_string(Index(token)) + "]";
}

// Tokens that cut a text: the special ones where they are parsed; of a byte-level vocabulary the
// user-defined ones everywhere (the other kinds find theirs inside of a segment).
bool CutsText(const Vocabulary& vocabulary, TokenId token) {
  switch (vocabulary.Kind(token)) {
    case TokenKind::kControl:
    case TokenKind::kUnknown: return true;
    case TokenKind::kUserDefined:
      return vocabulary.model() == "gpt2" && !IsFiller(vocabulary, token);
    default: return false;
  }
}

TokenTrie SpecialTrie(const Vocabulary& vocabulary) {
  std::vector<TokenTrie::Entry> entries;
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    const TokenId token{i};
    if (CutsText(vocabulary, token)) entries.push_back({vocabulary.Spelling(token), token});
  }
  return TokenTrie(std::move(entries));
}

}  // namespace

Result<Tokenizer> Tokenizer::FromModelFile(const ModelFile& file) {
  REM_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromModelFile(file));
  return Create(std::move(vocabulary));
}

Result<Tokenizer> Tokenizer::Create(Vocabulary vocabulary) {
  auto owned = std::make_unique<Vocabulary>(std::move(vocabulary));
  REM_ASSIGN_OR_RETURN(std::unique_ptr<SegmentEncoder> encoder, CreateEncoder(*owned));
  return Tokenizer(std::move(owned), std::move(encoder));
}

Tokenizer::Tokenizer(std::unique_ptr<Vocabulary> vocabulary,
                     std::unique_ptr<SegmentEncoder> encoder)
    : vocabulary_(std::move(vocabulary)),
      encoder_(std::move(encoder)),
      special_(SpecialTrie(*vocabulary_)) {
  bytes_.reserve(vocabulary_->size());
  for (int32_t i = 0; i < vocabulary_->size(); ++i) {
    bytes_.push_back(encoder_->TokenBytes(TokenId{i}));
  }
}

size_t Tokenizer::Checked(TokenId token) const {
  REM_CHECK(Contains(token), "token outside of the vocabulary");
  return static_cast<size_t>(Index(token));
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, SpecialTokens mode) const {
  std::string replaced;
  if (!IsValidUtf8(text)) {
    replaced = ReplaceInvalidUtf8(text);
    text = replaced;
  }
  const Region whole = {0, text.size()};
  return EncodeRegions(text, {&whole, mode == SpecialTokens::kParse ? 1u : 0u});
}

std::vector<TokenId> Tokenizer::EncodeChat(std::span<const TemplateSpan> spans,
                                           bool trust_content_specials) const {
  std::string text;
  std::vector<Region> regions;
  for (const TemplateSpan& span : spans) {
    const size_t begin = text.size();
    text += IsValidUtf8(span.text) ? span.text : ReplaceInvalidUtf8(span.text);
    if (!span.from_template && !trust_content_specials) continue;
    if (!regions.empty() && regions.back().end == begin) {
      regions.back().end = text.size();
    } else {
      regions.push_back({begin, text.size()});
    }
  }
  return EncodeRegions(text, regions);
}

std::vector<TokenId> Tokenizer::EncodeRegions(std::string_view text,
                                              std::span<const Region> regions) const {
  std::vector<TokenId> tokens;
  size_t segment = 0;
  size_t at = 0;
  while (at < text.size()) {
    while (!regions.empty() && regions.front().end <= at) regions = regions.subspan(1);
    const bool parsed = !regions.empty() && regions.front().begin <= at;
    const size_t special_max = parsed ? regions.front().end - at : 0;
    std::optional<TokenTrie::Match> match;
    special_.ForEachPrefix(text.substr(at), [&](size_t length, TokenId token) {
      const bool everywhere = vocabulary_->Kind(token) == TokenKind::kUserDefined;
      if (everywhere || length <= special_max) match = {length, token};
    });
    if (!match.has_value()) {
      ++at;
      continue;
    }
    if (at > segment) encoder_->Encode(text.substr(segment, at - segment), tokens);
    tokens.push_back(match->token);
    at += match->length;
    segment = at;
  }
  if (at > segment) encoder_->Encode(text.substr(segment), tokens);
  return tokens;
}

std::string Tokenizer::Decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::string bytes;
  for (TokenId token : tokens) {
    if (!skip_special || !IsControl(token)) bytes += TokenBytes(token);
  }
  return ReplaceInvalidUtf8(bytes);
}

}  // namespace remontoir
