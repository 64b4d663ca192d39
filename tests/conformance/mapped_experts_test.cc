// Expert models whose experts stay in the file, bit for bit those whose experts are packed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/loaded_engine.h"
#include "eval/teacher_forcing.h"
#include "tests/support/bits.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

std::vector<uint32_t> LogitBits(const std::string& file, const CpuBackendOptions& backend,
                                int32_t rows) {
  LoadEngineOptions options;
  options.backend = backend;
  options.engine.sequences_max = 1;
  auto opened = ModelFile::Open(TestData("tiny/" + file));
  REM_CHECK(opened.ok(), opened.status().message());
  auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  std::vector<int32_t> tokens(100);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(5 + i * 11 % 80);
  std::vector<float> all;
  RunTeacherForced(*model->runner, tokens, rows, 0, [&](int32_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  });
  return BitsOf(all);
}

TEST(MappedExperts, GiveTheBitsOfResidentOnesInEveryTinyModel) {
  for (const char* file :
       {"tiny-mixtral.f32.gguf", "tiny-mixtral.f16.gguf", "tiny-mixtral.q8_0.gguf",
        "tiny-llama-upcycled.f16.gguf", "tiny-llama.q8_0.gguf", "tiny-qwen2moe.f32.gguf",
        "tiny-qwen3moe.f32.gguf", "tiny-gptoss.f32.gguf", "tiny-gptoss.mxfp4.gguf",
        "tiny-grok1.q8_0.gguf", "tiny-grok2.q8_0.gguf", "tiny-deepseek2.f32.gguf",
        "tiny-deepseek3.q8_0.gguf", "tiny-deepseek2-lite.f32.gguf"}) {
    for (const ComputeMode compute : {ComputeMode::kAuto, ComputeMode::kF32}) {
      const auto resident = LogitBits(file, {.threads = 2, .compute = compute}, 512);
      for (const int32_t rows : {1, 7, 512}) {
        EXPECT_EQ(LogitBits(file, {.threads = 2, .compute = compute, .experts_mapped = true}, rows),
                  resident)
            << file << ", " << rows << " rows a round";
      }
    }
  }
}

}  // namespace
}  // namespace remontoir
