// What the sparse mode may cost SmolLM2 at 8,192 tokens of text, in float32: predictions, every
// layer, needles. The texts are those of scripts/long_texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "eval/long_context.h"
#include "eval/needle_trials.h"
#include "formats/model_file.h"
#include "model/model_info.h"
#include "model/model_loader.h"
#include "tensor/sealed_layout.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

constexpr int32_t kContext = 8192;
constexpr int32_t kScored = 1024;

template <typename T>
T ValueOf(Result<T> result) {
  REM_CHECK(result.ok(), result.status().message());
  return std::move(*result);
}

class Model {
 public:
  Model(float epsilon, int32_t block_keys)
      : file_(ValueOf(ModelFile::Open(DefaultModelPath()))),
        tokenizer_(ValueOf(Tokenizer::FromModelFile(file_))),
        info_(ValueOf(ReadModelInfo(file_))) {
    LoadOptions load;
    load.context_max = kContext;
    load.kv_type = DType::kF32;
    load.sequences_max = 1;
    load.kv_memory.arena_pages = 2 * (kContext / kKvPageTokens + 1);
    load.sparse = {.engage_at = kEngageAtCustomSparse,
                   .epsilon = epsilon,
                   .block_keys = block_keys,
                   .segments = FarSegments(kContext) + 1};
    auto backend = ValueOf(MakeCpuBackend({.compute = ComputeMode::kF32}));
    runner_ = ValueOf(LoadModel(file_, info_, std::move(backend), load, nullptr));
  }

  ModelRunner& runner() { return *runner_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  std::vector<int32_t> Tokens(const std::string& text, size_t count) const {
    const std::string path = StoredModelPath("texts/" + text);
    std::ifstream file(path, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    REM_CHECK(!bytes.empty(), path + " (scripts/long_texts makes it)");
    bytes.resize(std::min(bytes.size(), 16 * count));
    std::vector<int32_t> ids;
    for (const TokenId id : tokenizer_.Encode(bytes, SpecialTokens::kAsText)) {
      if (ids.size() < count) ids.push_back(Index(id));
    }
    return ids;
  }

 private:
  ModelFile file_;
  Tokenizer tokenizer_;
  ModelInfo info_;
  std::unique_ptr<ModelRunner> runner_;
};

// Section 7 of the specification; a bound of 1 is none. Its tokens that come one by one stand
// behind an exact prompt.
struct Line {
  const char* name;
  const char* text;
  float epsilon;
  int32_t block_keys;
  int32_t decode;  // of the scored tokens, computed one by one
  double kl_mean;
  double top1_agreement;
  double perplexity_change;
  double layer_error;
  double alarm_rate;
};

constexpr Line kLines[] = {
    {"ChangelogsEpsilon01", "changelogs.txt", 0.1F, 16, 0, 0.0007, 0.985, 0.002, 0.03, 0.01},
    {"ChangelogsEpsilon02", "changelogs.txt", 0.2F, 16, 0, 0.002, 0.97, 1, 0.06, 0.01},
    {"ChangelogsDecode", "changelogs.txt", 0.1F, 16, kScored, 0.0015, 0, 0.005, 1, 1},
    {"ChangelogsBlocksOf32", "changelogs.txt", 0.2F, 32, 0, 1, 0, 1, 1, 0.03},
    {"PythonEpsilon01", "python.txt", 0.1F, 16, 0, 0.0007, 0.985, 0.002, 0.03, 0.01},
    {"PythonEpsilon02", "python.txt", 0.2F, 16, 0, 0.002, 0.97, 1, 0.06, 0.01},
    {"PythonDecode", "python.txt", 0.1F, 16, kScored, 0.0015, 0, 0.005, 1, 1},
};

void PrintTo(const Line& line, std::ostream* out) { *out << line.name; }

class LongContext : public testing::TestWithParam<Line> {};

TEST_P(LongContext, StaysWithinTheSpecification) {
  const Line& line = GetParam();
  Model model(line.epsilon, line.block_keys);
  LongContextOptions options;
  options.scored_from = kContext - 1 - kScored;
  options.decode_from = kContext - line.decode;
  options.exact_prompt = line.decode > 0;
  options.layer_kernels = ValueOf(CpuKernels());
  const std::vector<int32_t> tokens = model.Tokens(line.text, kContext);
  ASSERT_EQ(std::ssize(tokens), kContext);
  const LongContextReport report = CompareLongContext(model.runner(), tokens, options, nullptr);
  EXPECT_EQ(report.sparse.predictions, kScored);
  EXPECT_LE(report.sparse.kl_mean, line.kl_mean);
  EXPECT_GE(report.sparse.top1_agreement, line.top1_agreement);
  EXPECT_LE(std::abs(report.sparse.perplexity_change()), line.perplexity_change);
  EXPECT_EQ(std::ssize(report.layers), model.runner().shape().layers);
  for (const LayerError& layer : report.layers) {
    EXPECT_LE(layer.error_mean, line.layer_error) << "layer " << layer.layer;
  }
  EXPECT_LE(Summarise(report.layers).alarm_rate, line.alarm_rate);
}

INSTANTIATE_TEST_SUITE_P(Lines, LongContext, testing::ValuesIn(kLines),
                         [](const auto& line) { return std::string(line.param.name); });

TEST(LongContextNeedles, AreKeptWhereExactAttentionFindsThem) {
  constexpr int32_t kNeedles = 64;
  Model model(0.1F, 16);
  const std::vector<int32_t> text =
      model.Tokens("changelogs.txt", size_t{kContext} * NeedlePrompts(kNeedles));
  const auto needles =
      ValueOf(TryNeedles(model.runner(), model.tokenizer(), text, kNeedles, nullptr));
  EXPECT_EQ(std::ssize(needles.trials), kNeedles);
  EXPECT_GE(needles.found_exact(), 32);
  EXPECT_GE(needles.kept(), 0.95 * needles.found_exact());
  for (const NeedleTrial& trial : needles.trials) {
    if (!trial.missed()) continue;
    GTEST_LOG_(INFO) << trial.needle.name << " at " << trial.depth << " of prompt " << trial.prompt
                     << ": " << trial.exact.logprob << " exact, " << trial.sparse.logprob;
  }
}

}  // namespace
}  // namespace remontoir
