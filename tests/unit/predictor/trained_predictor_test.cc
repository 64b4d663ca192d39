// The predictor's file: what is written comes back, and what is wrong is refused.
#include "predictor/trained_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

using testing::HasSubstr;

TrainedPredictor SomeModel() {
  TrainedPredictor model;
  model.shape.hidden = 5;
  model.tau_index = 2;
  model.train_mean = 0.12345678901234567;
  model.mask = FeatureMask().set();
  model.mask[13] = false;
  model.parameters.resize(model.shape.parameter_count());
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    model.parameters[i] = 0.25F * static_cast<float>(i);
  }
  model.notes["log_digest"] = "sha256:00";
  return model;
}

std::string TextOf(const TrainedPredictor& model) {
  const std::vector<std::byte> bytes = EncodePredictor(model);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<TrainedPredictor> Decoded(const std::string& text) {
  return DecodePredictor(std::as_bytes(std::span(text)), "file");
}

// With the first `from` made `to`, which is as long.
std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_EQ(from.size(), to.size());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TrainedPredictor, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  const TrainedPredictor model = SomeModel();
  const std::string path = folder.path() + "/model.safetensors";
  ASSERT_TRUE(WritePredictor(model, path).ok());
  const Result<TrainedPredictor> back = ReadPredictor(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->shape.hidden, 5);
  EXPECT_EQ(back->tick_ms, 20);
  EXPECT_EQ(back->tau_index, 2);
  EXPECT_EQ(back->train_mean, model.train_mean);
  EXPECT_EQ(back->mask, model.mask);
  EXPECT_EQ(back->parameters, model.parameters);
  EXPECT_EQ(back->notes, model.notes);
  EXPECT_EQ(TextOf(*back), TextOf(model));
}

TEST(TrainedPredictor, LiesInTheFileWithGatesAsRows) {
  const TrainedPredictor model = SomeModel();
  const std::string text = TextOf(model);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), sizeof(header_bytes));
  const size_t gates = model.shape.gates();
  // lstm.w_ih comes last: its second value is row 0, column 1.
  float value = 0;
  std::memcpy(&value, text.data() + text.size() - sizeof(float) * (gates * kFeatureCount - 1),
              sizeof(value));
  EXPECT_EQ(value, model.parameters[gates]);
}

TEST(TrainedPredictor, RefusesWhatIsWrongByName) {
  const std::string good = TextOf(SomeModel());
  ASSERT_TRUE(Decoded(good).ok());
  const struct {
    std::string text;
    const char* error;
  } kCases[] = {
      {"", "file: too short"},
      {std::string(64, '\xff'), "header's length"},
      {good.substr(0, 40), "header's length"},
      {good.substr(0, good.size() - 4), "lstm.w_ih: data_offsets"},
      {Replaced(good, "remontoir-lstm-v2", "remontoir-lstm-v9"), "metadata format"},
      {Replaced(good, "\"lstm.w_hh\"", "\"lstm.w_xx\""), "lacks the tensor lstm.w_hh"},
      {Replaced(good, "[20,18]", "[18,20]"), "lstm.w_ih: wants the shape [20,18]"},
      {Replaced(good, "\"tick_ms\":\"20\"", "\"tick_ms\":\"30\""), "metadata tick_ms"},
      {Replaced(good, "\"tau_star\":\"1\"", "\"tau_star\":\"2\""), "metadata tau_star"},
      {Replaced(good, "\"train_mean\":\"0", "\"train_mean\":\"x"), "metadata train_mean"},
      {Replaced(good, "111111111111101111", "111111111111121111"), "metadata mask"},
      {Replaced(good, "\"dtype\":\"F32\"", "\"dtype\":\"F16\""), "head.b: wants dtype F32"},
      {Replaced(good, "\"shape\":[20]", "\"shape\":[21]"), "lstm.b: wants the shape [4H]"},
      {Replaced(good, "\"shape\":[20]", "\"shape\":[-40"), "no JSON object"},
  };
  for (const auto& [text, error] : kCases) {
    const Result<TrainedPredictor> model = Decoded(text);
    ASSERT_FALSE(model.ok()) << error;
    EXPECT_THAT(model.status().message(), HasSubstr(error));
  }
}

TEST(TrainedPredictor, RefusesNumbersThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e20F}) {
    TrainedPredictor model = SomeModel();
    model.parameters[model.shape.head()] = bad;
    const Result<TrainedPredictor> back = Decoded(TextOf(model));
    ASSERT_FALSE(back.ok());
    EXPECT_THAT(back.status().message(), HasSubstr("head.w: holds a value"));
  }
}

TEST(TrainedPredictor, SurvivesAnyCutAndAnyByte) {
  const std::string good = TextOf(SomeModel());
  for (size_t size = 0; size < good.size(); size += 7) {
    EXPECT_FALSE(Decoded(good.substr(0, size)).ok()) << size;
  }
  for (size_t at = 0; at < 900; ++at) {  // the header and a little more
    std::string text = good;
    text[at] = static_cast<char>(text[at] ^ 0x15);
    const Result<TrainedPredictor> model = Decoded(text);
    if (model.ok()) {
      EXPECT_EQ(model->parameters.size(), model->shape.parameter_count());
    }
  }
}

}  // namespace
}  // namespace remontoir
