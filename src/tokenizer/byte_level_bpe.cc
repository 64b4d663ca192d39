// Pieces become bytes, bytes tokens, and pairs of tokens merge by rank.
#include "tokenizer/byte_level_bpe.h"

#include <bit>

#include "base/check.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge_queue.h"

namespace remontoir {

Result<std::unique_ptr<SegmentEncoder>> ByteLevelBpe::Create(const Vocabulary& vocabulary) {
  if (vocabulary.merges().empty()) {
    return InvalidArgument("tokenizer.ggml.merges: missing, but byte-pair encoding needs them");
  }
  REM_ASSIGN_OR_RETURN(Pretokenizer pretokenizer, Pretokenizer::Create(vocabulary.pre()));
  return std::unique_ptr<SegmentEncoder>(new ByteLevelBpe(vocabulary, std::move(pretokenizer)));
}

ByteLevelBpe::ByteLevelBpe(const Vocabulary& vocabulary, Pretokenizer pretokenizer)
    : vocabulary_(vocabulary), pretokenizer_(std::move(pretokenizer)) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    AppendUtf8(ByteAlphabetCharacter(static_cast<uint8_t>(byte)), spelling);
    byte_tokens_[byte] = vocabulary.Find(spelling).value_or(kNoToken);
  }
  FillTable();
  if (!pretokenizer_.prefers_whole_pieces()) return;
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.Kind(TokenId{i}) != TokenKind::kNormal) continue;
    whole_pieces_[TokenBytes(TokenId{i})] = TokenId{i};
  }
}

void ByteLevelBpe::FillTable() {
  const std::vector<Merge>& merges = vocabulary_.merges();
  table_.resize(std::bit_ceil(2 * merges.size()));
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    Slot& slot = table_[SlotOf(merges[rank].left, merges[rank].right)];
    if (slot.left != kNoToken) continue;  // named twice: the better rank counts
    slot = {merges[rank].left, merges[rank].right, merges[rank].merged, static_cast<int32_t>(rank)};
  }
}

// The pair's slot, or the free one where it would go.
size_t ByteLevelBpe::SlotOf(TokenId left, TokenId right) const {
  const uint64_t pair =
      static_cast<uint64_t>(Index(left)) << 32 | static_cast<uint32_t>(Index(right));
  const size_t mask = table_.size() - 1;
  size_t i = (pair * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (table_[i].left != kNoToken && (table_[i].left != left || table_[i].right != right)) {
    i = (i + 1) & mask;
  }
  return i;
}

void ByteLevelBpe::Encode(std::string_view text, std::vector<TokenId>& tokens) const {
  std::string composed;
  if (pretokenizer_.normalizes()) {
    composed = ComposeNfc(text);
    text = composed;
  }
  std::vector<std::string_view> pieces;
  pretokenizer_.Split(text, pieces);
  MergeQueue queue;
  for (std::string_view piece : pieces) EncodePiece(piece, queue, tokens);
}

void ByteLevelBpe::EncodePiece(std::string_view piece, MergeQueue& queue,
                               std::vector<TokenId>& tokens) const {
  if (!whole_pieces_.empty()) {
    const auto whole = whole_pieces_.find(std::string(piece));
    if (whole != whole_pieces_.end()) {
      tokens.push_back(whole->second);
      return;
    }
  }
  queue.Clear();
  for (uint32_t i = 0; i < piece.size(); ++i) {
    // A byte without a token is dropped before merging, so that its neighbours may merge.
    const TokenId token = byte_tokens_[static_cast<uint8_t>(piece[i])];
    if (token != kNoToken) queue.Add(token, i, i + 1);
  }
  queue.Run([this](const MergeQueue::Symbol& left,
                   const MergeQueue::Symbol& right) -> std::optional<MergeQueue::Joined> {
    const Slot& slot = table_[SlotOf(left.token, right.token)];
    if (slot.left == kNoToken) return std::nullopt;
    return MergeQueue::Joined{static_cast<double>(slot.rank), slot.merged};
  });
  queue.ForEach([&tokens](const MergeQueue::Symbol& symbol) { tokens.push_back(symbol.token); });
}

std::string ByteLevelBpe::TokenBytes(TokenId token) const {
  const std::string& spelling = vocabulary_.Spelling(token);
  if (vocabulary_.Kind(token) == TokenKind::kNormal) {
    return BytesOfSpelling(spelling).value_or(spelling);
  }
  return spelling;
}

}  // namespace remontoir
