// The best path through all pieces that match, from left to right.
#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "text/utf8.h"

namespace remontoir {
namespace {

// A character without a piece costs this much more than the worst piece.
constexpr float kUnknownPenalty = 10.0f;
// A user-defined piece beats every other way to spell its text.
constexpr float kUserDefinedBonus = 0.1f;

TokenTrie PieceTrie(const Vocabulary& vocabulary) {
  std::vector<std::string> spellings;  // what the entries view
  spellings.reserve(vocabulary.size());
  std::vector<TokenTrie::Entry> entries;
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    const TokenKind kind = vocabulary.Kind(TokenId{i});
    if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined) continue;
    spellings.push_back(EscapedSpelling(vocabulary, TokenId{i}));
    entries.push_back({spellings.back(), TokenId{i}});
  }
  return TokenTrie(std::move(entries));
}

// The best way to spell a text up to a place.
struct Best {
  float score = 0;
  size_t begin = 0;          // of the last piece
  TokenId token = kNoToken;  // kNoToken: a character that no piece spells
  bool reached = false;
};

}  // namespace

Result<std::unique_ptr<SegmentEncoder>> Unigram::Create(const Vocabulary& vocabulary) {
  REM_RETURN_IF_ERROR(Check(vocabulary));
  return std::unique_ptr<SegmentEncoder>(new Unigram(vocabulary));
}

Unigram::Unigram(const Vocabulary& vocabulary)
    : SentencePiece(vocabulary),
      pieces_(PieceTrie(vocabulary)),
      score_min_(std::numeric_limits<float>::max()),
      score_max_(std::numeric_limits<float>::lowest()) {
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.Kind(TokenId{i}) != TokenKind::kNormal) continue;
    score_min_ = std::min(score_min_, vocabulary.Score(TokenId{i}));
    score_max_ = std::max(score_max_, vocabulary.Score(TokenId{i}));
  }
}

float Unigram::ScoreOf(TokenId token, size_t length) const {
  if (vocabulary().Kind(token) != TokenKind::kUserDefined) return vocabulary().Score(token);
  return static_cast<float>(length) * score_max_ - kUserDefinedBonus;
}

void Unigram::EncodeEscaped(std::string_view text, std::vector<TokenId>& tokens) const {
  std::vector<Best> best(text.size() + 1);
  best[0].reached = true;
  const auto offer = [&best](size_t begin, size_t end, float score, TokenId token) {
    const float total = best[begin].score + score;
    if (best[end].reached && total <= best[end].score) return;
    best[end] = {total, begin, token, true};
  };
  for (size_t at = 0; at < text.size();) {
    const size_t character = DecodeUtf8(text.substr(at)).length;
    bool spelled = false;
    pieces_.ForEachPrefix(text.substr(at), [&](size_t length, TokenId token) {
      offer(at, at + length, ScoreOf(token, length), token);
      spelled = spelled || length == character;
    });
    if (!spelled) offer(at, at + character, score_min_ - kUnknownPenalty, kNoToken);
    at += character;
  }
  std::vector<size_t> ends;
  for (size_t end = text.size(); end > 0; end = best[end].begin) ends.push_back(end);
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Best& last = best[*end];
    if (last.token == kNoToken) {
      AppendUnknown(text.substr(last.begin, *end - last.begin), tokens);
    } else {
      tokens.push_back(last.token);
    }
  }
}

}  // namespace remontoir
