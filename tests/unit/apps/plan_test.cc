// Facts about what a plan says before anything is loaded.
#include "apps/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/paths.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

struct Printed {
  Status status;
  std::string text;
};

Printed PlanFor(const std::string& file, const EngineConfig& engine = {},
                const KvCacheConfig& kv_cache = {}) {
  PlanOptions options;
  options.engine.config.model.file = file;
  options.engine.config.engine = engine;
  options.engine.config.kv_cache = kv_cache;
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Printed printed{Plan(options, out), {}};
  std::fclose(out);
  printed.text.assign(text, size);
  std::free(text);
  return printed;
}

// 512 positions are 8 pages of 64; a token takes 2 layers x 2 heads x (16 + 16) values of 2 bytes.
TEST(Plan, CountsThePagesOfEverySequence) {
  EngineConfig engine;
  engine.sequences_max = 3;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), engine);
  ASSERT_TRUE(printed.status.ok()) << printed.status.message();
  EXPECT_THAT(printed.text, HasSubstr("1536 tokens of 256 bytes in F16"));
  EXPECT_THAT(printed.text, HasSubstr("2 of 8 experts"));
}

// In q8_0 a head's 16 values, less than a block of 32, take 16 bytes and a scale of 2.
TEST(Plan, CountsTheScalesOfQuantisedKeys) {
  KvCacheConfig kv_cache;
  kv_cache.type = KvType::kQ8_0;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), {}, kv_cache);
  ASSERT_TRUE(printed.status.ok()) << printed.status.message();
  EXPECT_THAT(printed.text, HasSubstr("tokens of 144 bytes in Q8_0"));
}

TEST(Plan, NamesWhatIsWrongWithTheFile) {
  EXPECT_THAT(PlanFor(TestData("bad/head-count-0.gguf")).status.message(), HasSubstr("head_count"));
}

}  // namespace
}  // namespace remontoir
