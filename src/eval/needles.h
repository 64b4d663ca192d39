// Needles in a long text: sentences that state codes, scattered over it, and questions for them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/sequence_pass.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

// Needles of one prompt, at most: each is about another number of another place.
inline constexpr int32_t kNeedlesPerPromptMax = 16;

struct Needle {
  std::string kind;  // "locker number"
  std::string name;
  std::string code;  // five digits

  // A paragraph that states the code twice.
  std::string Sentence() const;
  // Goes on with " " and the code.
  std::string Question() const;
};

// The same for a seed: all of different kinds, names and codes.
std::vector<Needle> MakeNeedles(int32_t count, uint64_t seed);

struct NeedlePrompt {
  std::vector<int32_t> tokens;
  std::vector<int32_t> depths;  // the position at which each sentence begins, ascending
};

// The text's first tokens with the sentences in between, `length` tokens in all. Sentences stand at
// evenly spaced depths and all end before depth_end, each after the token next to its depth that
// ends a line (of the 64 there; else where its depth falls). The text and what comes of the
// sentences must make `length` tokens.
NeedlePrompt MakeNeedlePrompt(std::span<const int32_t> text,
                              std::span<const std::vector<int32_t>> sentences, int32_t length,
                              int32_t depth_end, const std::function<bool(int32_t)>& ends_line);

// A question after the prompt, and what should come.
struct NeedleQuestion {
  std::vector<int32_t> tokens;
  std::vector<int32_t> answer;
};
NeedleQuestion TokenizeQuestion(const Tokenizer& tokenizer, const Needle& needle);

// Log-probability of an answer in nats, and whether each of its tokens was the likeliest.
struct NeedleAnswer {
  double logprob = 0;
  bool found = false;
};

// Asks behind a prompt of prompt_length tokens, a multiple of 8, which the pass has computed: the
// question in one round, the answer's tokens one by one. The prompt stays as it was.
NeedleAnswer AskNeedle(SequencePass& pass, int32_t prompt_length, const NeedleQuestion& question);

}  // namespace remontoir
