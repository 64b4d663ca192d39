// Blanks become visible, and bytes step in where there is no piece.
#include "tokenizer/sentence_piece.h"

#include <charconv>

namespace remontoir {
namespace {

std::string Replaced(std::string_view text, std::string_view old, std::string_view replacement) {
  std::string replaced;
  replaced.reserve(text.size() + text.size() / 4);
  while (true) {
    const size_t found = text.find(old);
    replaced += text.substr(0, found);
    if (found == std::string_view::npos) return replaced;
    replaced += replacement;
    text.remove_prefix(found + old.size());
  }
}

}  // namespace

std::string EscapedSpelling(const Vocabulary& vocabulary, TokenId token) {
  if (vocabulary.Kind(token) != TokenKind::kUserDefined) return vocabulary.Spelling(token);
  return Replaced(vocabulary.Spelling(token), " ", kVisibleBlank);
}

namespace {

TokenTrie UserDefinedTrie(const Vocabulary& vocabulary) {
  std::vector<std::string> spellings;  // what the entries view
  spellings.reserve(vocabulary.size());
  std::vector<TokenTrie::Entry> entries;
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.Kind(TokenId{i}) != TokenKind::kUserDefined) continue;
    spellings.push_back(EscapedSpelling(vocabulary, TokenId{i}));
    entries.push_back({spellings.back(), TokenId{i}});
  }
  return TokenTrie(std::move(entries));
}

}  // namespace

int ByteOfSpelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int byte = -1;
  const auto parsed = std::from_chars(spelling.data() + 3, spelling.data() + 5, byte, 16);
  return parsed.ptr == spelling.data() + 5 ? byte : -1;
}

Status SentencePiece::Check(const Vocabulary& vocabulary) {
  if (!vocabulary.has_scores()) {
    return InvalidArgument(
        "tokenizer.ggml.scores: missing, but this kind of vocabulary needs them");
  }
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.Kind(TokenId{i}) == TokenKind::kByte &&
        ByteOfSpelling(vocabulary.Spelling(TokenId{i})) < 0) {
      return InvalidArgument("tokenizer.ggml.tokens: token " + std::to_string(i) +
                             " is a byte but not spelled <0xHH>");
    }
  }
  return Status::Ok();
}

SentencePiece::SentencePiece(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), user_defined_(UserDefinedTrie(vocabulary)) {
  byte_tokens_.fill(kNoToken);
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.Kind(TokenId{i}) != TokenKind::kByte) continue;
    byte_tokens_[ByteOfSpelling(vocabulary.Spelling(TokenId{i}))] = TokenId{i};
  }
  for (TokenId token : byte_tokens_) has_bytes_ = has_bytes_ && token != kNoToken;
}

bool SentencePiece::MatchesText(TokenId token) const {
  const TokenKind kind = vocabulary_.Kind(token);
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined ||
         kind == TokenKind::kUnused;
}

void SentencePiece::AppendUnknown(std::string_view character, std::vector<TokenId>& tokens) const {
  if (has_bytes_) {
    for (char byte : character) tokens.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
    return;
  }
  const std::optional<TokenId> unknown = vocabulary_.unknown();
  if (!unknown.has_value() || (!tokens.empty() && tokens.back() == *unknown)) return;
  tokens.push_back(*unknown);
}

void SentencePiece::Encode(std::string_view text, std::vector<TokenId>& tokens) const {
  if (text.empty()) return;
  std::string escaped(vocabulary_.add_space_prefix() ? kVisibleBlank : "");
  escaped += Replaced(text, " ", kVisibleBlank);
  std::vector<TokenId> segment;
  EncodeEscaped(escaped, segment);
  tokens.insert(tokens.end(), segment.begin(), segment.end());
}

std::string SentencePiece::TokenBytes(TokenId token) const {
  const std::string& spelling = vocabulary_.Spelling(token);
  switch (vocabulary_.Kind(token)) {
    case TokenKind::kByte: return std::string(1, static_cast<char>(ByteOfSpelling(spelling)));
    case TokenKind::kControl:
    case TokenKind::kUnknown: return spelling;
    default: return Replaced(spelling, kVisibleBlank, " ");
  }
}

}  // namespace remontoir
