// A model whose weights come from the cache computes the bits of one whose weights were packed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/loaded_engine.h"
#include "eval/teacher_forcing.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

struct Outcome {
  bool from_cache = false;
  std::vector<float> logits;  // of every position
};

Outcome Compute(const std::string& path, ComputeMode compute, const std::string& cache_folder) {
  LoadEngineOptions options;
  options.backend.threads = 2;
  options.backend.compute = compute;
  options.backend.repack_cache.folder = cache_folder;
  options.engine.sequences_max = 1;
  options.context_max = 128;
  auto opened = ModelFile::Open(path);
  REM_CHECK(opened.ok(), opened.status().message() + " (scripts/fetch_model brings it)");
  const auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  Outcome outcome;
  const WeightsReport& report = model->runner->backend().weights_report();
  EXPECT_TRUE(report.notes.empty()) << report.notes.front();
  EXPECT_GT(report.bytes, 0);
  outcome.from_cache = report.from_cache;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 40; ++i) tokens.push_back(3 + (i * 37) % 280);
  RunTeacherForced(*model->runner, tokens, 16, 0, [&](int32_t, std::span<const float> logits) {
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  });
  return outcome;
}

void ExpectTheSameBits(const std::string& path, ComputeMode compute) {
  const TemporaryFolder folder;
  const Outcome packed = Compute(path, compute, "");
  const Outcome stored = Compute(path, compute, folder.path());
  const Outcome cached = Compute(path, compute, folder.path());
  EXPECT_FALSE(packed.from_cache);
  EXPECT_FALSE(stored.from_cache);
  EXPECT_TRUE(cached.from_cache);
  EXPECT_EQ(folder.Files().size(), 1u);
  EXPECT_GT(packed.logits.size(), 40u);
  EXPECT_EQ(stored.logits, packed.logits);
  EXPECT_EQ(cached.logits, packed.logits);
}

TEST(RepackCache, TinyModelsComputeTheSameBitsFromIt) {
  for (const char* file : {"tiny-llama.f32.gguf", "tiny-llama.q8_0.gguf", "tiny-mixtral.q8_0.gguf",
                           "tiny-llamaq.q4_k.gguf"}) {
    SCOPED_TRACE(file);
    for (const ComputeMode compute : {ComputeMode::kAuto, ComputeMode::kF32}) {
      ExpectTheSameBits(TestData(std::string("tiny/") + file), compute);
    }
  }
}

TEST(RepackCache, SmolLm2ComputesTheSameBitsFromIt) {
  ExpectTheSameBits(DefaultModelPath(), ComputeMode::kAuto);
}

}  // namespace
}  // namespace remontoir
