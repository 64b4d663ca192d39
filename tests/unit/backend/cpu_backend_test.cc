// Facts about the CPU back end: it computes what the plain reference computes, and the same bits
// whatever the threads, the chunks, the batch mates and the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/backend/rounds.h"
#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {
namespace {

std::vector<TinyShape> Shapes() {
  std::vector<TinyShape> shapes;
  const auto add = [&shapes](const char* name, auto&& change) {
    TinyShape shape;
    shape.name = name;
    change(shape);
    shapes.push_back(shape);
  };
  add("dense", [](TinyShape&) {});
  add("experts", [](TinyShape& s) { s.experts = 5; });
  add("f16 weights and keys", [](TinyShape& s) {
    s.type = DType::kF16;
    s.kv_type = DType::kF16;
  });
  add("bf16 keys", [](TinyShape& s) { s.kv_type = DType::kBF16; });
  add("q8_0 keys, half a block of values", [](TinyShape& s) { s.kv_type = DType::kQ8_0; });
  add("q8_0 keys of blocks and short ones, window", [](TinyShape& s) {
    s.kv_type = DType::kQ8_0;
    s.key_width = 40;
    s.value_width = 80;
    s.window = 20;
  });
  add("window, caps, sinks", [](TinyShape& s) {
    s.window = 20;
    s.soft_cap = 5;
    s.sinks = true;
  });
  add("biases, head norms, gelu, halves", [](TinyShape& s) {
    s.biases = true;
    s.head_norms = true;
    s.gate = GateKind::kGeluTanh;
    s.pairing = RopePairing::kHalves;
  });
  add("q8_0", [](TinyShape& s) { s.type = DType::kQ8_0; });
  add("q4_0, values of whole blocks", [](TinyShape& s) {
    s.type = DType::kQ4_0;
    s.kv_type = DType::kF16;
    s.value_width = 32;
  });
  add("q8_0, fine activations", [](TinyShape& s) {
    s.type = DType::kQ8_0;
    s.fine = true;
  });
  add("f16, where fine means nothing", [](TinyShape& s) {
    s.type = DType::kF16;
    s.fine = true;
  });
  add("experts with biases, clamped", [](TinyShape& s) {
    s.experts = 4;
    s.expert_biases = true;
    s.gate = GateKind::kClampedSwiglu;
  });
  add("a shared expert", [](TinyShape& s) {
    s.experts = 4;
    s.shared_expert = true;
  });
  add("q8_0 experts with biases, a shared one", [](TinyShape& s) {
    s.type = DType::kQ8_0;
    s.experts = 4;
    s.expert_biases = true;
    s.shared_expert = true;
    s.gate = GateKind::kClampedSwiglu;
  });
  add("q8_0 experts", [](TinyShape& s) {
    s.type = DType::kQ8_0;
    s.experts = 4;
  });
  return shapes;
}

std::vector<int32_t> Text(int32_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> text;
  for (int32_t i = 0; i < tokens; ++i) text.push_back(static_cast<int32_t>(random() % 50));
  return text;
}

// Each row's largest difference, relative to its largest value.
std::vector<double> Distances(const std::vector<std::vector<float>>& logits,
                              const std::vector<std::vector<double>>& expected) {
  std::vector<double> distances;
  for (size_t row = 0; row < expected.size(); ++row) {
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < expected[row].size(); ++i) {
      largest = std::max(largest, std::abs(expected[row][i]));
      difference = std::max(difference, std::abs(expected[row][i] - logits[row][i]));
    }
    distances.push_back(difference / largest);
  }
  std::sort(distances.begin(), distances.end());
  return distances;
}

CpuBackendOptions Threads(int32_t threads, ComputeMode compute = ComputeMode::kAuto) {
  CpuBackendOptions options;
  options.threads = threads;
  options.compute = compute;
  return options;
}

TEST(CpuBackend, ComputesWhatTheReferenceComputes) {
  const std::vector<int32_t> text = Text(70, 1);
  for (const TinyShape& shape : Shapes()) {
    SCOPED_TRACE(shape.name);
    const TinyModel model(shape);
    const auto expected = model.Logits(text);
    const bool half = shape.kv_type != DType::kF32;
    const bool keys_in_8_bits = shape.kv_type == DType::kQ8_0;
    const bool quantised = shape.type == DType::kQ8_0 || shape.type == DType::kQ4_0;
    for (ComputeMode compute : {ComputeMode::kF32, ComputeMode::kAuto}) {
      Rounds rounds(model, Threads(2, compute));
      const size_t sequence = rounds.Add(text);
      rounds.Run({{sequence, 70}});
      const std::vector<double> distances = Distances(rounds.Logits(sequence), expected);
      const bool in_8_bits = keys_in_8_bits || (quantised && compute == ComputeMode::kAuto);
      EXPECT_LT(distances[distances.size() / 2], in_8_bits ? 0.04 : half ? 0.01 : 1e-5);
      // Rounding to 8 bits may send a row to another expert, and then all is different.
      if (!in_8_bits || shape.experts == 0) {
        EXPECT_LT(distances.back(), in_8_bits ? 0.1 : half ? 0.03 : 1e-4);
      }
    }
  }
}

TEST(CpuBackend, FineActivationsComeCloserToTheReference) {
  const std::vector<int32_t> text = Text(70, 1);
  double median[2];
  for (bool fine : {false, true}) {
    TinyShape shape;
    shape.type = DType::kQ8_0;
    shape.layers = 1;
    shape.fine = fine;
    const TinyModel model(shape);
    Rounds rounds(model, Threads(2));
    const size_t sequence = rounds.Add(text);
    rounds.Run({{sequence, 70}});
    // What attention read, which is all that the two models differ in.
    const auto keys = rounds.backend().ActivationRows(ActivationId{3});
    Rounds exact(model, Threads(2, ComputeMode::kF32));
    exact.Run({{exact.Add(text), 70}});
    const auto expected = exact.backend().ActivationRows(ActivationId{3});
    std::vector<double> errors;
    for (size_t i = 0; i < keys.size(); ++i) errors.push_back(std::abs(keys[i] - expected[i]));
    std::sort(errors.begin(), errors.end());
    median[fine ? 1 : 0] = errors[errors.size() / 2];
  }
  EXPECT_LT(median[1], median[0] / 50);
}

// One thread, whole pieces: what every other way must repeat.
std::vector<std::vector<float>> Baseline(const TinyModel& model, const std::vector<int32_t>& text) {
  Rounds rounds(model, Threads(1));
  const size_t sequence = rounds.Add(text);
  while (rounds.Left(sequence) > 0) {
    rounds.Run({{sequence, std::min(Rounds::kRowsMax, rounds.Left(sequence))}});
  }
  return rounds.Logits(sequence);
}

TEST(CpuBackend, GivesTheSameBitsForAnyThreadsAndChunks) {
  const std::vector<int32_t> text = Text(60, 2);
  const std::vector<int32_t> other = Text(150, 3);
  for (const TinyShape& shape : Shapes()) {
    SCOPED_TRACE(shape.name);
    const TinyModel model(shape);
    const auto expected = Baseline(model, text);
    const auto expected_other = Baseline(model, other);
    for (int32_t threads : {1, 2, 3}) {
      for (int32_t chunk_max : {1, 9, 40}) {
        SCOPED_TRACE(std::to_string(threads) + " threads, chunks to " + std::to_string(chunk_max));
        std::mt19937 random(static_cast<uint32_t>(threads * 100 + chunk_max));
        Rounds rounds(model, Threads(threads));
        const size_t second = rounds.Add(other);
        const size_t first = rounds.Add(text);
        while (rounds.Left(first) > 0) {
          std::vector<Chunk> chunks;
          for (size_t s : {second, first}) {
            const auto wanted = static_cast<int32_t>(1 + random() % chunk_max);
            if (rounds.Left(s) > 0) chunks.push_back({s, std::min(wanted, rounds.Left(s))});
          }
          rounds.Run(chunks);
        }
        ASSERT_EQ(rounds.Logits(first), expected);
        for (size_t row = 0; row < rounds.Logits(second).size(); ++row) {
          ASSERT_EQ(rounds.Logits(second)[row], expected_other[row]);
        }
      }
    }
  }
}

// Long enough for three partials: decode splits them among workers, prefill walks them.
TEST(CpuBackend, DecodesLongContextsToTheBitsOfPrefill) {
  const std::vector<int32_t> text = Text(2120, 4);
  const struct {
    int32_t window;
    DType kv_type;
  } kCases[] = {{0, DType::kF16}, {1100, DType::kF16}, {0, DType::kQ8_0}};
  for (const auto& [window, kv_type] : kCases) {
    TinyShape shape;
    shape.name = "long";
    shape.kv_type = kv_type;
    shape.width = 32;
    shape.feed_forward = 32;
    shape.window = window;
    const TinyModel model(shape);
    const auto expected = Baseline(model, text);
    for (int32_t threads : {1, 2}) {
      Rounds rounds(model, Threads(threads));
      const size_t sequence = rounds.Add(text);
      const size_t mate = rounds.Add(text);
      while (rounds.Left(sequence) > 72) {
        rounds.Run({{sequence, std::min(250, rounds.Left(sequence) - 72)}});
      }
      while (rounds.Left(sequence) > 40) rounds.Run({{sequence, 1}});
      while (rounds.Left(sequence) > 0) rounds.Run({{mate, 2}, {sequence, 1}});
      ASSERT_EQ(rounds.Logits(sequence), expected)
          << "window " << window << ", keys in " << Info(kv_type).name;
    }
  }
}

TEST(CpuBackend, GivesTheSameBitsOnEveryInstructionSet) {
  const std::vector<int32_t> text = Text(60, 5);
  for (const TinyShape& shape : Shapes()) {
    SCOPED_TRACE(shape.name);
    const TinyModel model(shape);
    const auto best = Baseline(model, text);
    ASSERT_EQ(setenv("REMONTOIR_ISA", "scalar", 1), 0);
    const auto scalar = Baseline(model, text);
    ASSERT_EQ(unsetenv("REMONTOIR_ISA"), 0);
    EXPECT_EQ(best, scalar);
  }
}

TEST(CpuBackend, SaysWhatItIs) {
  ASSERT_EQ(setenv("REMONTOIR_ISA", "scalar", 1), 0);
  const auto scalar = MakeCpuBackend(Threads(2));
  ASSERT_EQ(setenv("REMONTOIR_ISA", "vacuum-tubes", 1), 0);
  const auto unknown = MakeCpuBackend(Threads(2));
  ASSERT_EQ(unsetenv("REMONTOIR_ISA"), 0);
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ((*scalar)->Describe(), "cpu, 2 threads, scalar");
  EXPECT_EQ(unknown.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(unknown.status().message().find("vacuum-tubes"), std::string::npos);
  EXPECT_FALSE(MakeCpuBackend(Threads(-1)).ok());
}

TEST(CpuBackend, SaysWhatItsStepsMultiply) {
  TinyShape shape;
  shape.type = DType::kQ8_0;
  shape.experts = 4;
  shape.fine = true;
  const TinyModel model(shape);  // the embedding is read where it lies
  Rounds rounds(model, Threads(2));
  std::array<int, kStepKindCount> steps_of_kind = {};
  for (const StepDescription& step : rounds.backend().DescribeSteps()) {
    ++steps_of_kind[static_cast<size_t>(step.kind)];
    const bool multiplies = step.kind == StepKind::kProducts || step.kind == StepKind::kLogits ||
                            step.kind == StepKind::kExpertProducts;
    EXPECT_EQ(step.products.empty(), !multiplies);
    if (step.kind == StepKind::kExpertProducts) {
      EXPECT_EQ(step.rows, RowSpace::kExperts);
      EXPECT_GE(step.products[0].bytes,
                shape.experts * step.products[0].out_width * step.products[0].in_width);
    }
    if (step.kind == StepKind::kLogits) {
      EXPECT_EQ(step.rows, RowSpace::kLogits);
      EXPECT_EQ(step.products[0].out_width, shape.vocabulary);
      EXPECT_EQ(step.products[0].in_width, shape.width);
      EXPECT_EQ(step.products[0].format, PanelFormat::kS8);
      EXPECT_EQ(step.products[0].passes, 2);
    }
  }
  for (const int steps : steps_of_kind) EXPECT_GT(steps, 0);
}

TEST(CpuBackend, TimesItsStepsWhileAsked) {
  const TinyModel model{TinyShape()};
  Rounds rounds(model, Threads(2));
  const size_t sequence = rounds.Add(std::vector<int32_t>(60, 1));
  std::vector<double> seconds(rounds.backend().DescribeSteps().size());
  rounds.backend().TimeSteps(seconds);
  const auto start = std::chrono::steady_clock::now();
  rounds.Run({{sequence, 40}});
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  double sum = 0;
  for (const double step : seconds) {
    EXPECT_GE(step, 0);
    sum += step;
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, passed.count());
  rounds.backend().TimeSteps({});
  const std::vector<double> before = seconds;
  rounds.Run({{sequence, 20}});
  EXPECT_EQ(seconds, before);
}

TEST(CpuBackend, ARoundWithoutRowsIsEmpty) {
  TinyShape shape;
  shape.experts = 3;
  Rounds rounds(TinyModel(shape), Threads(2));
  rounds.Run({});
  EXPECT_TRUE(rounds.backend().ActivationRows(ActivationId{0}).empty());
}

}  // namespace
}  // namespace remontoir::testing
