// Promise 5: an answer's bytes don't depend on load, chunking, threads, or on how it is computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "engine/loaded_engine.h"
#include "tests/support/engine_client.h"
#include "tests/support/json_file.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

struct Setting {
  int32_t threads;
  int32_t round_tokens_max;
  ComputeMode compute = ComputeMode::kAuto;
  DType kv_type = DType::kF16;
};

LoadedEngine Open(const std::string& path, const Setting& setting) {
  static const SystemClock clock;
  LoadEngineOptions options;
  options.backend = {.threads = setting.threads, .compute = setting.compute};
  options.kv_type = setting.kv_type;
  options.engine.sequences_max = 8;
  options.engine.round_tokens_max = setting.round_tokens_max;
  auto opened = ModelFile::Open(path);
  REM_CHECK(opened.ok(), opened.status().message());
  auto engine = OpenEngine(std::move(*opened), options, clock, nullptr);
  REM_CHECK(engine.ok(), engine.status().message());
  return std::move(*engine);
}

std::vector<TokenId> Tokens(const std::vector<int32_t>& ids) {
  std::vector<TokenId> tokens;
  for (const int32_t id : ids) tokens.push_back(TokenId(id));
  return tokens;
}

// Eight requests of different lengths: four greedy, four drawn by seed with every filter in use.
std::vector<Request> EightRequests(const std::vector<std::vector<TokenId>>& prompts,
                                   int32_t max_tokens) {
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    Request request;
    request.prompt = prompts[i % prompts.size()];
    request.max_tokens = max_tokens + i;
    request.want_logprobs = true;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    if (i % 2 == 1) {
      request.sampling.seed = 1000 + i;
      request.sampling.top_p = 0.95F;
      request.sampling.top_k = i == 3 ? 40 : 0;
      request.sampling.presence_penalty = i == 5 ? 0.5F : 0;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

// All at once, in flight together.
std::vector<Answer> Together(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::unique_ptr<PendingAnswer>> pending;
  for (const Request& request : requests) {
    pending.push_back(std::make_unique<PendingAnswer>(engine, request));
  }
  std::vector<Answer> answers;
  for (auto& one : pending) answers.push_back(one->Wait());
  return answers;
}

void ExpectTheSameBytes(const std::string& path, const std::vector<Request>& requests,
                        const std::vector<Setting>& settings) {
  std::vector<Answer> alone;
  {
    LoadedEngine engine = Open(path, {1, 512, settings[0].compute, settings[0].kv_type});
    for (const Request& request : requests) alone.push_back(Ask(*engine.engine, request));
  }
  for (const Setting& setting : settings) {
    LoadedEngine engine = Open(path, setting);
    const auto together = Together(*engine.engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(together[i], alone[i]) << "request " << i << ", " << setting.threads << " threads, "
                                       << setting.round_tokens_max << " tokens a round";
      EXPECT_EQ(std::ssize(alone[i].tokens), requests[i].max_tokens);
    }
  }
}

std::vector<std::vector<TokenId>> TinyPrompts() {
  std::vector<std::vector<TokenId>> prompts;
  for (const int length : {1, 7, 64, 65, 130, 200}) {
    std::vector<TokenId> prompt;
    // Of the smallest vocabulary, which has 96 tokens.
    for (int i = 0; i < length; ++i) prompt.push_back(TokenId(3 + (i * 37 + length) % 93));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

class TinySameBits : public testing::TestWithParam<const char*> {};

TEST_P(TinySameBits, EightStreamsTogetherGiveTheirSoloBytes) {
  const std::string path = TestData(std::string("tiny/") + GetParam());
  const auto requests = EightRequests(TinyPrompts(), 40);
  ExpectTheSameBytes(path, requests, {{1, 512}, {2, 512}, {1, 16}, {2, 64}, {3, 100}});
  ExpectTheSameBytes(path, requests, {{2, 64, ComputeMode::kF32}});
  ExpectTheSameBytes(
      path, requests,
      {{2, 64, ComputeMode::kAuto, DType::kQ8_0}, {1, 100, ComputeMode::kAuto, DType::kQ8_0}});
}

TEST_P(TinySameBits, ScoringAnAnswerGivesTheLogprobsOfItsDecode) {
  LoadedEngine engine = Open(TestData(std::string("tiny/") + GetParam()), {2, 512});
  for (Request request : EightRequests(TinyPrompts(), 60)) {
    const Answer decoded = Ask(*engine.engine, request);
    Request score;
    score.kind = RequestKind::kScore;
    score.prompt = request.prompt;
    score.prompt.insert(score.prompt.end(), decoded.tokens.begin(), decoded.tokens.end());
    score.max_tokens = 0;
    score.want_logprobs = true;
    const Answer scored = Ask(*engine.engine, score);
    ASSERT_EQ(scored.prompt_logprobs.size(), score.prompt.size() - 1);
    const std::vector<float> tail(scored.prompt_logprobs.end() - std::ssize(decoded.tokens),
                                  scored.prompt_logprobs.end());
    EXPECT_EQ(tail, decoded.logprobs);
  }
}

std::string FileName(const testing::TestParamInfo<const char*>& file) {
  std::string name = file.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, TinySameBits,
                         testing::Values("tiny-llama.f32.gguf", "tiny-llama.q8_0.gguf",
                                         "tiny-mixtral.q8_0.gguf", "tiny-llamaq.q4_k.gguf",
                                         "tiny-gemma2.f32.gguf", "tiny-gptoss.mxfp4.gguf",
                                         "tiny-phi3.f32.gguf", "tiny-grok2.q8_0.gguf",
                                         "tiny-deepseek3.q8_0.gguf"),
                         FileName);

std::vector<std::vector<TokenId>> RealPrompts() {
  std::vector<std::vector<TokenId>> prompts;
  for (const auto& line : ReadJsonLines(TestData("real/smollm2.greedy.jsonl"))) {
    auto ids = Ints(line.at("prompt_ids"));
    if (ids.size() > 700) ids.resize(700);
    prompts.push_back(Tokens(ids));
  }
  return prompts;
}

TEST(SmolLm2SameBits, EightStreamsTogetherGiveTheirSoloBytes) {
  ExpectTheSameBytes(DefaultModelPath(), EightRequests(RealPrompts(), 24), {{2, 512}, {1, 96}});
}

class SmolLm2SameBitsOf : public testing::TestWithParam<DType> {};

TEST_P(SmolLm2SameBitsOf, ScoringAnAnswerGivesTheLogprobsOfItsDecode) {
  LoadedEngine engine = Open(DefaultModelPath(), {2, 512, ComputeMode::kAuto, GetParam()});
  Request request = EightRequests(RealPrompts(), 100)[1];
  const Answer decoded = Ask(*engine.engine, request);
  Request score;
  score.kind = RequestKind::kScore;
  score.prompt = request.prompt;
  score.prompt.insert(score.prompt.end(), decoded.tokens.begin(), decoded.tokens.end());
  score.max_tokens = 0;
  score.want_logprobs = true;
  const Answer scored = Ask(*engine.engine, score);
  const std::vector<float> tail(scored.prompt_logprobs.end() - std::ssize(decoded.tokens),
                                scored.prompt_logprobs.end());
  EXPECT_EQ(tail, decoded.logprobs);
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SmolLm2SameBitsOf, testing::Values(DType::kF16, DType::kQ8_0),
                         [](const auto& type) { return std::string(Info(type.param).name); });

}  // namespace
}  // namespace remontoir
