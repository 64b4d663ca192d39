// Facts about `remontoir eval longcontext`, on tiny models: what is compared, and with what.
#include "apps/eval_long_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "base/random.h"
#include "tensor/sealed_layout.h"
#include "tests/support/paths.h"
#include "tests/support/printed.h"
#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

Printed Eval(const EvalLongContextOptions& options) {
  return PrintedBy([&](std::FILE* out) { return EvalLongContext(options, out); });
}

boost::json::value Json(const EvalLongContextOptions& options) {
  const Printed outcome = Eval(options);
  REM_CHECK(outcome.status.ok(), outcome.status.message());
  return boost::json::parse(outcome.text);
}

double Number(const boost::json::value& value) { return value.to_number<double>(); }

// Lines of a few words in an order of no meaning.
std::string Text(int lines) {
  const char* words[] = {"stone", "river", "lamp", "seven", "under", "glass", "north", "quiet"};
  const CounterRandom random(5, 0);
  std::string text;
  for (int i = 0; i < lines * 6; ++i) {
    text += words[random.Bits(static_cast<uint64_t>(i)) % 8];
    text += i % 6 == 5 ? '\n' : ' ';
  }
  return text;
}

class EvalLongContextTest : public testing::Test {
 protected:
  EvalLongContextTest() {
    folder_.Write("long.txt", Text(400));
    folder_.Write("short.txt", Text(10));
  }

  // Gemma's one layer without a window sees the same inputs in both modes.
  EvalLongContextOptions Tiny(const char* model = "tiny-gemma3.f32") const {
    EvalLongContextOptions options;
    options.model = TestData("tiny/" + std::string(model) + ".gguf");
    options.text_file = folder_ / "long.txt";
    options.context = 4480;
    options.epsilon = 0.8;
    options.needles = 0;
    options.compute = ComputeChoice::kF32;
    options.json = true;
    return options;
  }

  const TemporaryFolder folder_;
};

TEST_F(EvalLongContextTest, LayersReadWhatTheSparsePassReads) {
  for (const int32_t decode : {0, 4480 - kEngageAtCustomSparse}) {
    EvalLongContextOptions options = Tiny();
    options.decode = decode;
    const auto json = Json(options);
    ASSERT_EQ(json.at("layers").as_array().size(), 1U);
    const auto& layer = json.at("layers").at(0);
    EXPECT_EQ(layer.at("layer"), 5);
    EXPECT_GT(Number(json.at("density")), 0);
    EXPECT_LT(Number(json.at("density")), 1);
    EXPECT_FLOAT_EQ(static_cast<float>(Number(layer.at("density"))),
                    static_cast<float>(Number(json.at("density"))));
    EXPECT_FLOAT_EQ(static_cast<float>(Number(layer.at("residual_max"))),
                    static_cast<float>(Number(json.at("residual_max"))));
    EXPECT_GT(Number(layer.at("error_mean")), 1e-4);
    EXPECT_LE(Number(layer.at("error_mean")), Number(layer.at("error_worst_head")));
  }
}

TEST_F(EvalLongContextTest, AnExactPromptLeavesItsOwnPredictionsAlone) {
  EvalLongContextOptions options = Tiny();
  options.scored = 64;
  options.decode = 1;
  const auto sparse = Json(options);
  options.exact_prompt = true;
  const auto exact = Json(options);
  EXPECT_EQ(exact.at("predictions"), 64);
  EXPECT_GT(Number(exact.at("density")), 0);  // of the one row behind it
  EXPECT_LT(Number(exact.at("sparse").at("kl_mean")),
            Number(sparse.at("sparse").at("kl_mean")) / 8);
}

TEST_F(EvalLongContextTest, WithNothingLeftOutBothModesAgree) {
  EvalLongContextOptions options = Tiny("tiny-llama.f32");
  options.epsilon = 1e-6;
  options.needles = 2;
  const auto json = Json(options);
  EXPECT_EQ(json.at("density"), 1);
  EXPECT_EQ(json.at("predictions"), 1024);
  EXPECT_LT(Number(json.at("sparse").at("kl_mean")), 1e-6);
  EXPECT_EQ(json.at("sparse").at("top1_agreement"), 1);
  EXPECT_EQ(json.at("layers").as_array().size(), 3U);
  for (const auto& layer : json.at("layers").as_array()) {
    EXPECT_LT(Number(layer.at("error_max")), 1e-4);
    EXPECT_EQ(layer.at("alarm_rate"), 0);
  }
  EXPECT_EQ(json.at("needles").at("asked"), 2);
  for (const auto& trial : json.at("needles").at("trials").as_array()) {
    EXPECT_NEAR(Number(trial.at("logprob_exact")), Number(trial.at("logprob_sparse")), 1e-3);
    EXPECT_EQ(trial.at("found_exact"), trial.at("found_sparse"));
  }
}

TEST_F(EvalLongContextTest, EightBitActivationsStandBesideFloat32) {
  EvalLongContextOptions options = Tiny("tiny-llama.q8_0");
  options.compute = ComputeChoice::kAuto;
  const auto json = Json(options);
  EXPECT_GT(Number(json.at("rounding").at("exact").at("kl_mean")), 0);
  EXPECT_GT(Number(json.at("rounding").at("sparse").at("kl_mean")), 0);
  options.rounding = false;
  EXPECT_FALSE(Json(options).as_object().contains("rounding"));
  options.rounding = true;
  options.compute = ComputeChoice::kF32;
  EXPECT_FALSE(Json(options).as_object().contains("rounding"));
}

TEST_F(EvalLongContextTest, PrintsTables) {
  EvalLongContextOptions options = Tiny();
  options.json = false;
  options.needles = 1;
  const Printed outcome = Eval(options);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text, HasSubstr("1024 predictions at the end of 4480 tokens, compute f32"));
  EXPECT_THAT(outcome.text, HasSubstr("worst head"));
  EXPECT_THAT(outcome.text, HasSubstr("1 needles in prompts of 4352 tokens"));
}

TEST_F(EvalLongContextTest, RefusesATextThatIsTooShort) {
  EvalLongContextOptions options = Tiny();
  options.text_file = folder_ / "short.txt";
  const Printed outcome = Eval(options);
  EXPECT_EQ(outcome.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(outcome.status.message(), HasSubstr("wanted 4480"));
}

}  // namespace
}  // namespace remontoir
