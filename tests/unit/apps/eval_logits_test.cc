// Facts about `remontoir eval logits`: a tiny model against its reference, and against wrong ones.
#include "apps/eval_logits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/json_file.h"
#include "tests/support/paths.h"
#include "tests/support/printed.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

Printed Eval(const EvalLogitsOptions& options) {
  return PrintedBy([&](std::FILE* out) { return EvalLogits(options, out); });
}

// The tiny llama, its first sequence and the reference's logits of it.
EvalLogitsOptions Tiny(const char* model = "tiny-llama.f32") {
  const auto manifest = ReadJson(TestData("tiny/manifest.json"));
  const auto& sequence = manifest.at("tiny-llama.f32").at("sequences").at("s3");
  EvalLogitsOptions options;
  options.engine.config.model.file = TestData("tiny/" + std::string(model) + ".gguf");
  options.engine.compute = ComputeChoice::kF32;
  options.reference = TestData("tiny/" + std::string(sequence.at("logits").as_string()));
  options.tokens = Ints(sequence.at("prompt"));
  const std::vector<int32_t> greedy = Ints(sequence.at("greedy"));
  options.tokens.insert(options.tokens.end(), greedy.begin(), greedy.end());
  return options;
}

TEST(EvalLogits, PassesAModelThatIsItsReference) {
  const Printed outcome = Eval(Tiny());
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text, HasSubstr("top1_share    1\npass\n"));
}

TEST(EvalLogits, WritesJson) {
  EvalLogitsOptions options = Tiny();
  options.json = true;
  const Printed outcome = Eval(options);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  const auto json = boost::json::parse(outcome.text);
  EXPECT_EQ(json.at("rows").to_number<int64_t>(), std::ssize(options.tokens));
  EXPECT_LT(json.at("max_abs").to_number<double>(), 1e-3);
  EXPECT_LT(json.at("kl_max").to_number<double>(), 1e-5);
  EXPECT_TRUE(json.at("pass").as_bool());
}

TEST(EvalLogits, FailsAnotherModelByTheBoundItExceeds) {
  const Printed outcome = Eval(Tiny("tiny-mixtral.f32"));
  EXPECT_EQ(outcome.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(outcome.status.message(), HasSubstr("max_abs"));
  EXPECT_THAT(outcome.status.message(), HasSubstr("is above 0.001"));
  EXPECT_THAT(outcome.text, HasSubstr("fail: max_abs"));
}

TEST(EvalLogits, AsksOnlyForTheBoundsGiven) {
  EvalLogitsOptions options = Tiny();
  options.bounds.top1_share = 1;
  EXPECT_TRUE(Eval(options).status.ok());
  options.bounds.kl_mean = 0;
  EXPECT_THAT(Eval(options).status.message(), HasSubstr("kl_mean"));
}

TEST(EvalLogits, NamesWhatDoesNotFit) {
  const struct {
    void (*change)(EvalLogitsOptions& options);
    const char* words;
  } cases[] = {
      {[](EvalLogitsOptions& o) { o.tokens = {1}; }, "rows for 1 tokens"},
      {[](EvalLogitsOptions& o) { o.tokens[1] = 1 << 20; }, "--tokens: 1048576, the model has 0"},
      {[](EvalLogitsOptions& o) { o.tokens[1] = -1; }, "--tokens: -1"},
      {[](EvalLogitsOptions& o) { o.reference = TestData("tiny/none.npy"); }, "none.npy"},
      {[](EvalLogitsOptions& o) { o.reference = TestData("dequant/Q8_0.f32.npy"); },
       "rows of 32 logits, but the model has"},
      {[](EvalLogitsOptions& o) { o.engine.config.model.context = 4; }, "the context is 4"},
  };
  for (const auto& test : cases) {
    EvalLogitsOptions options = Tiny();
    test.change(options);
    EXPECT_THAT(Eval(options).status.message(), HasSubstr(test.words));
  }
}

}  // namespace
}  // namespace remontoir
