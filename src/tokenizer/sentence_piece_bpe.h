// SentencePiece's byte-pair encoding: neighbours merge when the vocabulary has what they make, the
// best score first.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/merge_queue.h"
#include "tokenizer/sentence_piece.h"

namespace remontoir {

class SentencePieceBpe : public SentencePiece {
 public:
  // The vocabulary must outlive it. InvalidArgument, naming the key, if it lacks scores.
  static Result<std::unique_ptr<SegmentEncoder>> Create(const Vocabulary& vocabulary);

 protected:
  void EncodeEscaped(std::string_view text, std::vector<TokenId>& tokens) const override;

 private:
  // What an unused piece was made of: where its left part ends.
  using Seams = std::unordered_map<std::string_view, size_t>;

  explicit SentencePieceBpe(const Vocabulary& vocabulary);
  TokenId Find(std::string_view piece) const;  // kNoToken: not a piece of text
  void AppendPiece(std::string_view piece, const Seams& seams, std::vector<TokenId>& tokens) const;

  std::unordered_map<std::string_view, TokenId> pieces_;  // views into the vocabulary
  size_t piece_bytes_max_ = 0;
};

}  // namespace remontoir
