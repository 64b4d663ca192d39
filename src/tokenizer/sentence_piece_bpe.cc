// Characters and user-defined pieces merge by score; unused pieces are taken apart again.
#include "tokenizer/sentence_piece_bpe.h"

#include <algorithm>

#include "text/utf8.h"

namespace remontoir {
namespace {

// Marks a user-defined piece, which never merges.
constexpr TokenId kFrozen{-2};

}  // namespace

Result<std::unique_ptr<SegmentEncoder>> SentencePieceBpe::Create(const Vocabulary& vocabulary) {
  REM_RETURN_IF_ERROR(Check(vocabulary));
  return std::unique_ptr<SegmentEncoder>(new SentencePieceBpe(vocabulary));
}

SentencePieceBpe::SentencePieceBpe(const Vocabulary& vocabulary) : SentencePiece(vocabulary) {
  pieces_.reserve(vocabulary.size());
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    if (!MatchesText(TokenId{i})) continue;
    pieces_[vocabulary.Spelling(TokenId{i})] = TokenId{i};
    piece_bytes_max_ = std::max(piece_bytes_max_, vocabulary.Spelling(TokenId{i}).size());
  }
}

TokenId SentencePieceBpe::Find(std::string_view piece) const {
  if (piece.size() > piece_bytes_max_) return kNoToken;
  const auto found = pieces_.find(piece);
  return found == pieces_.end() ? kNoToken : found->second;
}

void SentencePieceBpe::EncodeEscaped(std::string_view text, std::vector<TokenId>& tokens) const {
  MergeQueue queue;
  std::vector<TokenId> user_defined;  // of the frozen symbols, in order
  for (size_t at = 0; at < text.size();) {
    const std::optional<TokenTrie::Match> match = UserDefined(text.substr(at));
    if (match.has_value()) user_defined.push_back(match->token);
    const size_t length = match.has_value() ? match->length : DecodeUtf8(text.substr(at)).length;
    queue.Add(match.has_value() ? kFrozen : kNoToken, static_cast<uint32_t>(at),
              static_cast<uint32_t>(at + length));
    at += length;
  }
  Seams seams;
  queue.Run([&](const MergeQueue::Symbol& left,
                const MergeQueue::Symbol& right) -> std::optional<MergeQueue::Joined> {
    if (left.token == kFrozen || right.token == kFrozen) return std::nullopt;
    const std::string_view piece = text.substr(left.begin, right.end - left.begin);
    const TokenId token = Find(piece);
    if (token == kNoToken) return std::nullopt;
    if (vocabulary().Kind(token) == TokenKind::kUnused) seams[piece] = left.end - left.begin;
    return MergeQueue::Joined{-static_cast<double>(vocabulary().Score(token)), token};
  });
  size_t frozen = 0;
  queue.ForEach([&](const MergeQueue::Symbol& symbol) {
    if (symbol.token == kFrozen) {
      tokens.push_back(user_defined[frozen++]);
    } else {
      AppendPiece(text.substr(symbol.begin, symbol.end - symbol.begin), seams, tokens);
    }
  });
}

void SentencePieceBpe::AppendPiece(std::string_view piece, const Seams& seams,
                                   std::vector<TokenId>& tokens) const {
  const TokenId token = Find(piece);
  if (token == kNoToken) return AppendUnknown(piece, tokens);
  if (vocabulary().Kind(token) == TokenKind::kUnused) {
    const auto seam = seams.find(piece);
    if (seam != seams.end()) {
      AppendPiece(piece.substr(0, seam->second), seams, tokens);
      AppendPiece(piece.substr(seam->second), seams, tokens);
      return;
    }
  }
  tokens.push_back(token);
}

}  // namespace remontoir
