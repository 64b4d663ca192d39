// Byte-level byte-pair encoding, as GPT-2 and its many heirs do it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/segment_encoder.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {

class MergeQueue;

class ByteLevelBpe : public SegmentEncoder {
 public:
  // The vocabulary must outlive it. Unsupported for an unknown pre-tokenizer; InvalidArgument if
  // there are no merges.
  static Result<std::unique_ptr<SegmentEncoder>> Create(const Vocabulary& vocabulary);

  void Encode(std::string_view text, std::vector<TokenId>& tokens) const override;
  std::string TokenBytes(TokenId token) const override;

 private:
  // What a pair of tokens becomes, in an open-addressing table.
  struct Slot {
    TokenId left = kNoToken;  // kNoToken: free
    TokenId right;
    TokenId merged;
    int32_t rank;  // smaller merges first
  };

  ByteLevelBpe(const Vocabulary& vocabulary, Pretokenizer pretokenizer);
  void FillTable();
  size_t SlotOf(TokenId left, TokenId right) const;
  void EncodePiece(std::string_view piece, MergeQueue& queue, std::vector<TokenId>& tokens) const;

  const Vocabulary& vocabulary_;
  Pretokenizer pretokenizer_;
  std::vector<Slot> table_;                                // a power of two, at most half full
  std::array<TokenId, 256> byte_tokens_;                   // kNoToken: the vocabulary lacks it
  std::unordered_map<std::string, TokenId> whole_pieces_;  // empty unless they are preferred
};

}  // namespace remontoir
