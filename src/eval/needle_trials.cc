// One prompt after the other in the same pages.
#include "eval/needle_trials.h"

#include <algorithm>
#include <string>

#include "tensor/sealed_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

// What a question and its answer take at most, by far.
constexpr int32_t kQuestionTokensMax = 128;

class Trials {
 public:
  Trials(ModelRunner& runner, const Tokenizer& tokenizer, std::span<const int32_t> text,
         int32_t length)
      : tokenizer_(tokenizer),
        text_(text),
        length_(length),
        exact_(runner, runner.limits().context_max, 0, SequencePass::Attention::kExact),
        sparse_(runner, runner.limits().context_max,
                SequencePass::PagesFor(runner.limits().context_max),
                SequencePass::Attention::kSparse) {}

  // Adds a trial for each needle.
  void RunPrompt(int32_t number, int32_t prompts, int32_t needle_count, NeedleReport* report) {
    const std::vector<Needle> needles = MakeNeedles(needle_count, static_cast<uint64_t>(number));
    std::vector<std::vector<int32_t>> sentences;
    for (const Needle& needle : needles) {
      sentences.emplace_back();
      for (const TokenId id : tokenizer_.Encode(needle.Sentence(), SpecialTokens::kAsText)) {
        sentences.back().push_back(Index(id));
      }
    }
    const NeedlePrompt prompt = MakeNeedlePrompt(
        TextOf(number, prompts), sentences, length_, SegmentEnd(FarSegments(length_) - 1),
        [&](int32_t token) { return tokenizer_.TokenBytes(TokenId(token)).ends_with('\n'); });
    exact_.Prefill(prompt.tokens);
    sparse_.Prefill(prompt.tokens);
    for (size_t i = 0; i < needles.size(); ++i) {
      const NeedleQuestion question = TokenizeQuestion(tokenizer_, needles[i]);
      report->trials.push_back({.prompt = number,
                                .needle = needles[i],
                                .depth = prompt.depths[i],
                                .exact = AskNeedle(exact_, length_, question),
                                .sparse = AskNeedle(sparse_, length_, question)});
    }
  }

 private:
  // One prompt's worth from a place of its own on; places overlap where the text is short.
  std::vector<int32_t> TextOf(int32_t number, int32_t prompts) const {
    const size_t length = static_cast<size_t>(length_);
    const size_t apart =
        prompts == 1
            ? 0
            : std::min(length, (text_.size() - length) / (static_cast<size_t>(prompts) - 1));
    const std::span<const int32_t> part =
        text_.subspan(static_cast<size_t>(number) * apart, length);
    std::vector<int32_t> tokens;
    if (tokenizer_.vocabulary().add_bos() && tokenizer_.bos()) {
      tokens.push_back(Index(*tokenizer_.bos()));
    }
    tokens.insert(tokens.end(), part.begin(), part.end());
    return tokens;
  }

  const Tokenizer& tokenizer_;
  const std::span<const int32_t> text_;
  const int32_t length_;
  SequencePass exact_;
  SequencePass sparse_;
};

}  // namespace

int32_t NeedleReport::found_exact() const {
  return static_cast<int32_t>(std::count_if(
      trials.begin(), trials.end(), [](const NeedleTrial& trial) { return trial.exact.found; }));
}

int32_t NeedleReport::kept() const {
  const auto missed = std::count_if(trials.begin(), trials.end(),
                                    [](const NeedleTrial& trial) { return trial.missed(); });
  return found_exact() - static_cast<int32_t>(missed);
}

int32_t NeedlePrompts(int32_t needles) {
  return (needles + kNeedlesPerPromptMax - 1) / kNeedlesPerPromptMax;
}

Result<NeedleReport> TryNeedles(ModelRunner& runner, const Tokenizer& tokenizer,
                                std::span<const int32_t> text, int32_t needles,
                                const std::function<void(int32_t prompts_done)>& progress) {
  const int32_t prompts = NeedlePrompts(needles);
  NeedleReport report;
  report.prompt_tokens =
      (runner.limits().context_max - kQuestionTokensMax) / kRowGroupPositions * kRowGroupPositions;
  if (std::ssize(text) < report.prompt_tokens) {
    return InvalidArgument("a text of " + std::to_string(text.size()) + " tokens, prompts have " +
                           std::to_string(report.prompt_tokens));
  }
  Trials trials(runner, tokenizer, text, report.prompt_tokens);
  for (int32_t p = 0; p < prompts; ++p) {
    const int32_t count = needles * (p + 1) / prompts - needles * p / prompts;
    trials.RunPrompt(p, prompts, count, &report);
    if (progress) progress(p + 1);
  }
  return report;
}

}  // namespace remontoir
