// SentencePiece's unigram model: the segmentation whose pieces' scores add up to the most.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/sentence_piece.h"

namespace remontoir {

class Unigram : public SentencePiece {
 public:
  // The vocabulary must outlive it. InvalidArgument, naming the key, if it lacks scores.
  static Result<std::unique_ptr<SegmentEncoder>> Create(const Vocabulary& vocabulary);

 protected:
  void EncodeEscaped(std::string_view text, std::vector<TokenId>& tokens) const override;

 private:
  explicit Unigram(const Vocabulary& vocabulary);
  float ScoreOf(TokenId token, size_t length) const;

  TokenTrie pieces_;
  float score_min_;
  float score_max_;
};

}  // namespace remontoir
