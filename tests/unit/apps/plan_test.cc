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

Printed PlanFor(const std::string& file, const EngineConfig& engine = {}) {
  PlanOptions options;
  options.engine.config.model.file = file;
  options.engine.config.engine = engine;
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
  EXPECT_THAT(printed.text, HasSubstr("1536 tokens of 256 bytes"));
  EXPECT_THAT(printed.text, HasSubstr("2 of 8 experts"));
}

TEST(Plan, NamesWhatIsWrongWithTheFile) {
  EXPECT_THAT(PlanFor(TestData("bad/head-count-0.gguf")).status.message(), HasSubstr("head_count"));
}

}  // namespace
}  // namespace remontoir
