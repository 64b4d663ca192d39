// Tiny random models against reference logits: prefill in any chunking, step by step, in mixed
// rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/loaded_engine.h"
#include "eval/teacher_forcing.h"
#include "sampling/logprobs.h"
#include "tests/support/json_file.h"
#include "tests/support/npy.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

struct ModelCase {
  std::string name;  // in the manifest
  std::string file;
  int32_t context_max = 0;  // 0: as trained
  Compat compat = Compat::kAuthors;
};

LoadedModel Open(const ModelCase& c, ComputeMode compute) {
  LoadEngineOptions options;
  options.compat = c.compat;
  options.backend = {.threads = 2, .compute = compute};
  options.engine.sequences_max = 2;
  options.context_max = c.context_max;
  auto opened = ModelFile::Open(TestData("tiny/" + c.file));
  REM_CHECK(opened.ok(), opened.status().message());
  auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  return std::move(*model);
}

struct Sequence {
  std::string name;
  std::vector<int32_t> tokens;  // prompt and the reference's greedy answer
  size_t prompt = 0;
  NpyArray logits;  // [tokens][vocabulary]
};

// The manifest that lists the model: the oracles', or that of scripts/oracles.
boost::json::object ManifestOf(const std::string& model) {
  for (const char* file : {"tiny/manifest.json", "tiny/grok_deepseek.json"}) {
    auto manifest = ReadJson(TestData(file)).as_object();
    if (manifest.contains(model)) return manifest;
  }
  return ReadJson(TestData("tiny/families.json")).as_object();
}

std::vector<Sequence> ReadSequences(const ModelCase& c) {
  const boost::json::object manifest = ManifestOf(c.name);
  const auto* entry = &manifest.at(c.name).as_object();
  const char* logits = c.compat == Compat::kLlamaCpp ? "logits_llamacpp" : "logits";
  if (!entry->contains("sequences")) {
    entry = &manifest.at(entry->at("same_as").as_string()).as_object();
  }
  std::vector<Sequence> sequences;
  for (const auto& [name, value] : entry->at("sequences").as_object()) {
    Sequence sequence;
    sequence.name = name;
    sequence.tokens = Ints(value.at("prompt"));
    sequence.prompt = sequence.tokens.size();
    const auto greedy = Ints(value.at("greedy"));
    sequence.tokens.insert(sequence.tokens.end(), greedy.begin(), greedy.end());
    sequence.logits = ReadNpy(TestData("tiny/" + std::string(value.at(logits).as_string())));
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

std::vector<float> AllLogits(ModelRunner& runner, const Sequence& sequence, int32_t rows) {
  std::vector<float> all;
  RunTeacherForced(runner, sequence.tokens, rows, 0, [&](int32_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  });
  return all;
}

// A sequence that shares rounds with another: so many of its rows in each.
class RoundShare {
 public:
  // Its pages begin with this one.
  RoundShare(const Sequence& sequence, int32_t rows, int32_t first_page)
      : tokens_(sequence.tokens), rows_(rows) {
    for (size_t page = 0; page * kKvPageTokens < tokens_.size(); ++page) {
      pages_.push_back(KvPageId(first_page + static_cast<int32_t>(page)));
    }
  }

  int32_t page_count() const { return static_cast<int32_t>(pages_.size()); }
  bool done() const { return first_ == std::ssize(tokens_); }
  int32_t rows() const { return std::min(rows_, static_cast<int32_t>(tokens_.size()) - first_); }
  BatchSequence Next() const {
    return {.tokens = std::span(tokens_).subspan(static_cast<size_t>(first_),
                                                 static_cast<size_t>(rows())),
            .first_position = first_,
            .pages = pages_,
            .logits_begin = 0};
  }
  void Take(const ModelRunner& runner, int32_t first_row) {
    for (int32_t row = 0; row < rows(); ++row) {
      const auto row_logits = runner.Logits(first_row + row);
      logits_.insert(logits_.end(), row_logits.begin(), row_logits.end());
    }
    first_ += rows();
  }
  const std::vector<float>& logits() const { return logits_; }

 private:
  const std::vector<int32_t>& tokens_;
  const int32_t rows_;
  std::vector<KvPageId> pages_;
  std::vector<float> logits_;
  int32_t first_ = 0;
};

void RunTogether(ModelRunner& runner, RoundShare& a, RoundShare& b) {
  while (!a.done() || !b.done()) {
    std::vector<BatchSequence> batch;
    std::vector<RoundShare*> shares;
    for (RoundShare* share : {&a, &b}) {
      if (share->done()) continue;
      batch.push_back(share->Next());
      shares.push_back(share);
    }
    runner.Run(batch);
    int32_t first_row = 0;
    for (RoundShare* share : shares) {
      const int32_t rows = share->rows();
      share->Take(runner, first_row);
      first_row += rows;
    }
  }
}

void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.name; }

std::string CaseName(const testing::TestParamInfo<ModelCase>& info) {
  std::string name = info.param.name;
  if (info.param.compat == Compat::kLlamaCpp) name += "_as_llama_cpp";
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class TinyModel : public testing::TestWithParam<ModelCase> {};

// Tolerance of the oracles for float32 activations.
TEST_P(TinyModel, InFloat32EqualsTheReferenceWithin1e3) {
  LoadedModel model = Open(GetParam(), ComputeMode::kF32);
  for (const Sequence& sequence : ReadSequences(GetParam())) {
    const auto logits = AllLogits(*model.runner, sequence, 512);
    ASSERT_EQ(logits.size(), sequence.logits.values.size());
    double worst = 0;
    int far = 0;  // counts what is no number too
    for (size_t i = 0; i < logits.size(); ++i) {
      const double difference = std::abs(double{logits[i]} - sequence.logits.values[i]);
      worst = std::max(worst, difference);
      if (!(difference <= 1e-3)) ++far;
    }
    EXPECT_EQ(far, 0) << sequence.name << ": up to " << worst;
    RecordProperty("worst_" + sequence.name, std::to_string(worst));
  }
}

TEST_P(TinyModel, GivesTheSameBitsInAnyChunkingAndStepByStep) {
  for (const ComputeMode compute : {ComputeMode::kF32, ComputeMode::kAuto}) {
    LoadedModel model = Open(GetParam(), compute);
    for (const Sequence& sequence : ReadSequences(GetParam())) {
      const auto whole = AllLogits(*model.runner, sequence, 512);
      for (const int32_t rows : {1, 3, 8, 17}) {
        EXPECT_EQ(whole, AllLogits(*model.runner, sequence, rows))
            << sequence.name << ", " << rows << " rows a round";
      }
    }
  }
}

TEST_P(TinyModel, GivesTheSameBitsInRoundsThatTwoSequencesShare) {
  for (const ComputeMode compute : {ComputeMode::kF32, ComputeMode::kAuto}) {
    LoadedModel model = Open(GetParam(), compute);
    const std::vector<Sequence> sequences = ReadSequences(GetParam());
    const Sequence& longest = sequences.back();
    for (const Sequence& sequence : sequences) {
      // Steps of one beside chunks of the other.
      RoundShare steps(sequence, 1, 0);
      RoundShare chunks(longest, 5, steps.page_count());
      RunTogether(*model.runner, steps, chunks);
      EXPECT_EQ(steps.logits(), AllLogits(*model.runner, sequence, 512)) << sequence.name;
      EXPECT_EQ(chunks.logits(), AllLogits(*model.runner, longest, 512)) << sequence.name;
    }
  }
}

const ModelCase kModels[] = {
    {"tiny-llama.f32", "tiny-llama.f32.gguf"},
    {"tiny-llama.f16", "tiny-llama.f16.gguf"},
    {"tiny-llama.q8_0", "tiny-llama.q8_0.gguf"},
    {"tiny-llama-split", "tiny-llama-split-00001-of-00003.gguf"},
    {"tiny-llama31.f32", "tiny-llama31.f32.gguf"},
    {"tiny-gemma2.f32", "tiny-gemma2.f32.gguf"},
    {"tiny-gemma3.f32", "tiny-gemma3.f32.gguf"},
    {"tiny-qwen2.f32", "tiny-qwen2.f32.gguf"},
    {"tiny-qwen2moe.f32", "tiny-qwen2moe.f32.gguf"},
    {"tiny-qwen3.f32", "tiny-qwen3.f32.gguf"},
    {"tiny-qwen3moe.f32", "tiny-qwen3moe.f32.gguf"},
    {"tiny-phi3.f32", "tiny-phi3.f32.gguf"},
    {"tiny-phi3-long.f32", "tiny-phi3-long.f32.gguf"},
    {"tiny-phi3-short.f32", "tiny-phi3-short.f32.gguf", 32},
    {"tiny-gptoss.f32", "tiny-gptoss.f32.gguf"},
    {"tiny-gptoss.f32", "tiny-gptoss.f32.gguf", 0, Compat::kLlamaCpp},
    {"tiny-gptoss.mxfp4", "tiny-gptoss.mxfp4.gguf"},
    {"tiny-grok1.f32", "tiny-grok1.f32.gguf"},
    {"tiny-grok1.q8_0", "tiny-grok1.q8_0.gguf"},
    {"tiny-grok1-keys.f32", "tiny-grok1-keys.f32.gguf"},
    {"tiny-grok2.f32", "tiny-grok2.f32.gguf"},
    {"tiny-grok2.f32", "tiny-grok2.f32.gguf", 0, Compat::kLlamaCpp},
    {"tiny-grok2.q8_0", "tiny-grok2.q8_0.gguf"},
    {"tiny-grok2.q8_0", "tiny-grok2.q8_0.gguf", 0, Compat::kLlamaCpp},
    {"tiny-grok2-long.f32", "tiny-grok2-long.f32.gguf"},
    {"tiny-grok2-long.f32", "tiny-grok2-long.f32.gguf", 0, Compat::kLlamaCpp},
    {"tiny-deepseek2.f32", "tiny-deepseek2.f32.gguf"},
    {"tiny-deepseek2-lite.f32", "tiny-deepseek2-lite.f32.gguf"},
    {"tiny-deepseek3.f32", "tiny-deepseek3.f32.gguf"},
    {"tiny-deepseek3.q8_0", "tiny-deepseek3.q8_0.gguf"},
    {"tiny-llama-upcycled.f16", "tiny-llama-upcycled.f16.gguf"},
    {"tiny-mixtral.f32", "tiny-mixtral.f32.gguf"},
    {"tiny-mixtral.f16", "tiny-mixtral.f16.gguf"},
    {"tiny-mixtral.q8_0", "tiny-mixtral.q8_0.gguf"},
    {"tiny-llamaq.f16", "tiny-llamaq.f16.gguf"},
    {"tiny-llamaq.bf16", "tiny-llamaq.bf16.gguf"},
    {"tiny-llamaq.q4_0", "tiny-llamaq.q4_0.gguf"},
    {"tiny-llamaq.q4_1", "tiny-llamaq.q4_1.gguf"},
    {"tiny-llamaq.q5_0", "tiny-llamaq.q5_0.gguf"},
    {"tiny-llamaq.q5_1", "tiny-llamaq.q5_1.gguf"},
    {"tiny-llamaq.q8_0", "tiny-llamaq.q8_0.gguf"},
    {"tiny-llamaq.q2_k", "tiny-llamaq.q2_k.gguf"},
    {"tiny-llamaq.q3_k", "tiny-llamaq.q3_k.gguf"},
    {"tiny-llamaq.q4_k", "tiny-llamaq.q4_k.gguf"},
    {"tiny-llamaq.q5_k", "tiny-llamaq.q5_k.gguf"},
    {"tiny-llamaq.q6_k", "tiny-llamaq.q6_k.gguf"},
    {"tiny-llamaq.iq4_nl", "tiny-llamaq.iq4_nl.gguf"},
    {"tiny-llamaq.iq4_xs", "tiny-llamaq.iq4_xs.gguf"},
    {"tiny-llamaq.mxfp4", "tiny-llamaq.mxfp4.gguf"},
};

INSTANTIATE_TEST_SUITE_P(Oracles, TinyModel, testing::ValuesIn(kModels), CaseName);

// --- 8-bit activations -------------------------------------------------------------------------

struct Distance {
  double relative_rms = 0;  // rms of the difference / standard deviation of the reference
  double mean_kl = 0;
  double worst = 0;
  int greedy_equal = 0;  // of the reference's 16 greedy choices
};

double KlDivergence(std::span<const float> reference, std::span<const float> logits) {
  const double reference_sum = LogSumExp(reference);
  const double sum = LogSumExp(logits);
  double kl = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = reference[i] - reference_sum;
    kl += std::exp(log_p) * (log_p - (logits[i] - sum));
  }
  return kl;
}

// Joins what all sequences of a model say.
class DistanceMeter {
 public:
  void Add(const Sequence& sequence, const std::vector<float>& logits) {
    const int64_t vocabulary = sequence.logits.shape[1];
    for (size_t i = 0; i < logits.size(); ++i) {
      const double wanted = sequence.logits.values[i];
      const double difference = logits[i] - wanted;
      squares_ += difference * difference;
      sum_ += wanted;
      sum_of_squares_ += wanted * wanted;
      ++values_;
      distance_.worst = std::max(distance_.worst, std::abs(difference));
    }
    for (int64_t row = 0; row < sequence.logits.shape[0]; ++row) {
      const std::span<const float> ours(&logits[row * vocabulary], vocabulary);
      kl_ += KlDivergence({&sequence.logits.values[row * vocabulary], ours.size()}, ours);
      ++rows_;
      const size_t next = row + 1;
      if (next < sequence.prompt || next >= sequence.tokens.size()) continue;
      const auto best = std::max_element(ours.begin(), ours.end()) - ours.begin();
      distance_.greedy_equal += best == sequence.tokens[next];
    }
  }

  Distance Get() const {
    Distance distance = distance_;
    const double mean = sum_ / values_;
    distance.relative_rms =
        std::sqrt(squares_ / values_) / std::sqrt(sum_of_squares_ / values_ - mean * mean);
    distance.mean_kl = kl_ / rows_;
    return distance;
  }

 private:
  Distance distance_;
  double squares_ = 0, sum_ = 0, sum_of_squares_ = 0, kl_ = 0;
  double values_ = 0, rows_ = 0;
};

class QuantisedTinyModel : public testing::TestWithParam<ModelCase> {};

TEST_P(QuantisedTinyModel, WithEightBitActivationsStaysWithinTheOraclesBounds) {
  LoadedModel model = Open(GetParam(), ComputeMode::kAuto);
  DistanceMeter meter;
  for (const Sequence& sequence : ReadSequences(GetParam())) {
    meter.Add(sequence, AllLogits(*model.runner, sequence, 512));
  }
  const Distance distance = meter.Get();
  // An 8-bit router input can flip an expert.
  const std::string& name = GetParam().name;
  const bool loose = name == "tiny-mixtral.q8_0" || name == "tiny-grok2.q8_0" ||
                     name == "tiny-deepseek3.q8_0" || name.find("mxfp4") != std::string::npos;
  EXPECT_LE(distance.relative_rms, loose ? 0.12 : 0.06);
  EXPECT_LE(distance.mean_kl, 0.02);
  EXPECT_LE(distance.worst, 2.5);
  EXPECT_GE(distance.greedy_equal, 42);
  RecordProperty("relative_rms", std::to_string(distance.relative_rms));
}

std::vector<ModelCase> QuantisedModels() {
  std::vector<ModelCase> models;
  for (const ModelCase& model : kModels) {
    if (model.compat != Compat::kAuthors) continue;  // the greedy choices aren't this reading's
    if (model.name.find(".q") != std::string::npos || model.name.find("iq4") != std::string::npos ||
        model.name.find("mxfp4") != std::string::npos) {
      models.push_back(model);
    }
  }
  return models;
}

INSTANTIATE_TEST_SUITE_P(Oracles, QuantisedTinyModel, testing::ValuesIn(QuantisedModels()),
                         CaseName);

}  // namespace
}  // namespace remontoir
