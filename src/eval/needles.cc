// Words, places, and reading answers off.
#include "eval/needles.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "sampling/logprobs.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

constexpr std::array<const char*, kNeedlesPerPromptMax> kNames = {
    "Lisbon", "Cairo",  "Oslo",   "Nairobi", "Lima",   "Kyoto",  "Dublin", "Vienna",
    "Havana", "Warsaw", "Mumbai", "Toronto", "Geneva", "Athens", "Boston", "Prague"};
// Small models take needles of one kind for one another.
constexpr std::array<const char*, kNeedlesPerPromptMax> kKinds = {
    "secret code",   "phone number", "locker number", "badge number",
    "order number",  "postal code",  "ticket number", "account number",
    "serial number", "room number",  "flight number", "case number",
    "gate number",   "product code", "access code",   "license number"};
constexpr int32_t kCodeMin = 10000;
constexpr int32_t kCodes = 90000;
// A sentence moves at most so many tokens from its depth to begin a line.
constexpr int32_t kLineTokensMax = 64;

int32_t Likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void Append(std::span<const int32_t> tokens, std::vector<int32_t>* to) {
  to->insert(to->end(), tokens.begin(), tokens.end());
}

// How many of the text's tokens come before a sentence that wants to stand after `wanted` of them.
size_t LineEndNear(std::span<const int32_t> text, size_t wanted,
                   const std::function<bool(int32_t)>& ends_line) {
  const size_t end = std::min(text.size(), wanted + kLineTokensMax);
  for (size_t i = wanted; i < end; ++i) {
    if (i > 0 && ends_line(text[i - 1])) return i;
  }
  return wanted;
}

std::vector<int32_t> Encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  for (const TokenId id : tokenizer.Encode(text, SpecialTokens::kAsText)) ids.push_back(Index(id));
  return ids;
}

}  // namespace

std::string Needle::Sentence() const {
  const std::string statement = "he " + kind + " of " + name + " is " + code;
  return "T" + statement + ", remember that t" + statement + ".\n";
}

std::string Needle::Question() const { return "\nThe " + kind + " of " + name + " is"; }

std::vector<Needle> MakeNeedles(int32_t count, uint64_t seed) {
  REM_CHECK(count <= kNeedlesPerPromptMax, "a name for each");
  const CounterRandom random(seed, 0);
  std::array<size_t, kNames.size()> order;
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[random.Bits(i) % (i + 1)]);
  std::vector<Needle> needles;
  uint64_t draw = order.size();
  while (std::ssize(needles) < count) {
    const auto number = static_cast<int32_t>(random.Bits(draw++) % kCodes) + kCodeMin;
    const std::string code = std::to_string(number);
    const bool taken = std::any_of(needles.begin(), needles.end(),
                                   [&](const Needle& needle) { return needle.code == code; });
    if (taken) continue;
    const size_t place = order[needles.size()];
    needles.push_back({kKinds[(place + seed) % kKinds.size()], kNames[place], code});
  }
  return needles;
}

NeedlePrompt MakeNeedlePrompt(std::span<const int32_t> text,
                              std::span<const std::vector<int32_t>> sentences, int32_t length,
                              int32_t depth_end, const std::function<bool(int32_t)>& ends_line) {
  size_t sentence_tokens = 0;
  for (const auto& sentence : sentences) sentence_tokens += sentence.size();
  const auto room = static_cast<size_t>(depth_end);
  REM_CHECK(room >= sentence_tokens + kLineTokensMax && length >= depth_end,
            "sentences fit before the end of depths");
  // Of the text, before the last sentence.
  const size_t spread = room - sentence_tokens - kLineTokensMax;
  NeedlePrompt prompt;
  size_t taken = 0;
  for (size_t i = 0; i < sentences.size(); ++i) {
    const size_t wanted = spread * (2 * i + 1) / (2 * sentences.size());
    const size_t until = std::max(taken, LineEndNear(text, wanted, ends_line));
    REM_CHECK(until <= text.size(), "a text that is long enough");
    Append(text.subspan(taken, until - taken), &prompt.tokens);
    taken = until;
    prompt.depths.push_back(static_cast<int32_t>(prompt.tokens.size()));
    Append(sentences[i], &prompt.tokens);
  }
  const size_t rest = static_cast<size_t>(length) - prompt.tokens.size();
  REM_CHECK(taken + rest <= text.size(), "a text that is long enough");
  Append(text.subspan(taken, rest), &prompt.tokens);
  return prompt;
}

NeedleQuestion TokenizeQuestion(const Tokenizer& tokenizer, const Needle& needle) {
  // Tokens may join the question's end and the answer's beginning: what both share is the question.
  const std::vector<int32_t> asked = Encode(tokenizer, needle.Question());
  const std::vector<int32_t> whole = Encode(tokenizer, needle.Question() + " " + needle.code);
  const auto shared = std::mismatch(asked.begin(), asked.end(), whole.begin(), whole.end()).second;
  return {{whole.begin(), shared}, {shared, whole.end()}};
}

NeedleAnswer AskNeedle(SequencePass& pass, int32_t prompt_length, const NeedleQuestion& question) {
  REM_CHECK(prompt_length % kRowGroupPositions == 0, "questions begin a row group");
  const auto asked = static_cast<int32_t>(question.tokens.size());
  REM_CHECK(asked > 0 && !question.answer.empty(), "a question and an answer");
  NeedleAnswer answer = {.logprob = 0, .found = true};
  pass.Run(question.tokens, prompt_length, asked - 1);
  for (size_t i = 0; i < question.answer.size(); ++i) {
    if (i > 0) {
      const auto position = prompt_length + asked + static_cast<int32_t>(i) - 1;
      pass.Run({&question.answer[i - 1], 1}, position, 0);
    }
    const std::span<const float> logits = pass.runner().Logits(0);
    const int32_t token = question.answer[i];
    answer.logprob += logits[static_cast<size_t>(token)] - LogSumExp(logits);
    answer.found = answer.found && Likeliest(logits) == token;
  }
  return answer;
}

}  // namespace remontoir
