// Facts about rounds with sparse attention: bits don't depend on company, chunks or threads, and
// what isn't sparse isn't touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu_sparse_attention.h"
#include "tests/support/bits.h"
#include "tests/unit/backend/rounds.h"
#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {
namespace {

constexpr int32_t kEngageAt = 1216;  // the first segment is far from here on
constexpr int32_t kPrompt = 1400;
constexpr int32_t kGenerated = 5;
constexpr SparseAttentionOptions kSparse = {.engage_at = kEngageAt, .epsilon = 0.2F};

std::vector<int32_t> Text(uint32_t seed, int32_t tokens = kPrompt + kGenerated) {
  std::mt19937 random(seed);
  std::vector<int32_t> text;
  for (int32_t i = 0; i < tokens; ++i) text.push_back(static_cast<int32_t>(random() % 50));
  return text;
}

TinyShape ShapeOf(DType kv_type) {
  TinyShape shape;
  shape.kv_type = kv_type;
  return shape;
}

// The prompt in chunks, then one token a round.
void RunAlone(Rounds& rounds, size_t sequence, const std::vector<int32_t>& chunks) {
  for (size_t i = 0; rounds.Left(sequence) > kGenerated; ++i) {
    const int32_t chunk = chunks[i % chunks.size()];
    rounds.Run({{sequence, std::min(chunk, rounds.Left(sequence) - kGenerated)}});
  }
  while (rounds.Left(sequence) > 0) rounds.Run({{sequence, 1}});
}

std::vector<uint32_t> BitsOfRows(const std::vector<std::vector<float>>& rows, size_t begin,
                                 size_t end) {
  std::vector<float> all;
  for (size_t r = begin; r < end; ++r) all.insert(all.end(), rows[r].begin(), rows[r].end());
  return BitsOf(all);
}

TEST(SealedLayoutOf, LeavesOutLayersWithWideKeysAndThoseThatBoundScores) {
  const KvLayout layout({{.kv_heads = 1, .key_width = 64, .value_width = 64},
                         {.kv_heads = 1, .key_width = 128, .value_width = 128},
                         {.kv_heads = 1, .key_width = 256, .value_width = 256},
                         {.kv_heads = 1, .key_width = 64, .value_width = 64},
                         {.kv_heads = 1, .key_width = 64, .value_width = 64}});
  Program program;
  for (int32_t layer = 0; layer < layout.layer_count(); ++layer) {
    AttentionOp op{};
    op.layer = layer;
    op.heads = 1;
    op.window = layer == 3 ? 512 : 0;
    op.soft_cap = layer == 4 ? 30.0F : 0.0F;
    program.operations.emplace_back(op);
  }
  const SealedLayout sealed = SealedLayoutOf(program, layout, 16);
  for (int32_t layer = 0; layer < layout.layer_count(); ++layer) {
    EXPECT_EQ(sealed.has(layer), layer < 2) << layer;
  }
}

TEST(SparseRounds, BitsDontDependOnChunksOrThreads) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    const TinyModel model(ShapeOf(type));
    std::vector<uint32_t> want;
    for (const int32_t threads : {1, 3}) {
      for (const std::vector<int32_t>& chunks :
           {std::vector<int32_t>{256}, {8}, {64, 8, 200, 16}}) {
        Rounds rounds(model, {.threads = threads}, 1, kSparse);
        const size_t sequence = rounds.Add(Text(1));
        RunAlone(rounds, sequence, chunks);
        const auto bits = BitsOfRows(rounds.Logits(sequence), 0, kPrompt + kGenerated);
        if (want.empty()) want = bits;
        EXPECT_TRUE(bits == want) << threads << " threads, chunks of " << chunks[0];
      }
    }
  }
}

TEST(SparseRounds, BitsDontDependOnBatchMates) {
  const TinyModel model(ShapeOf(DType::kF16));
  Rounds alone(model, {.threads = 1}, 1, kSparse);
  RunAlone(alone, alone.Add(Text(1)), {256});

  Rounds rounds(model, {.threads = 2}, 4, kSparse);
  const size_t sequence = rounds.Add(Text(1));
  const size_t sparse = rounds.Add(Text(2));
  const size_t exact = rounds.Add(Text(3), true);
  while (rounds.Left(sequence) > kGenerated) {
    const int32_t chunk = std::min(80, rounds.Left(sequence) - kGenerated);
    std::vector<Chunk> chunks = {{exact, std::min(64, rounds.Left(exact))}, {sequence, chunk}};
    if (rounds.Left(sparse) > 0) chunks.push_back({sparse, std::min(72, rounds.Left(sparse))});
    if (rounds.Left(exact) == 0) chunks.erase(chunks.begin());
    rounds.Run(chunks);
  }
  while (rounds.Left(sequence) > 0) {
    std::vector<Chunk> chunks = {{sequence, 1}};
    if (rounds.Left(sparse) > 0) chunks.push_back({sparse, 1});
    rounds.Run(chunks);
  }
  EXPECT_TRUE(BitsOfRows(rounds.Logits(sequence), 0, kPrompt + kGenerated) ==
              BitsOfRows(alone.Logits(0), 0, kPrompt + kGenerated));
}

TEST(SparseRounds, RowsBelowEngageAtAndExactSequencesHaveTheBitsOfTheExactMode) {
  const TinyModel model(ShapeOf(DType::kF16));
  Rounds exact(model, {.threads = 1}, 1);
  RunAlone(exact, exact.Add(Text(1)), {256});
  Rounds rounds(model, {.threads = 2}, 2, kSparse);
  const size_t sparse = rounds.Add(Text(1));
  const size_t opted_out = rounds.Add(Text(1), true);
  RunAlone(rounds, sparse, {128});
  RunAlone(rounds, opted_out, {128});
  const size_t all = kPrompt + kGenerated;
  EXPECT_TRUE(BitsOfRows(rounds.Logits(opted_out), 0, all) == BitsOfRows(exact.Logits(0), 0, all));
  EXPECT_TRUE(BitsOfRows(rounds.Logits(sparse), 0, kEngageAt) ==
              BitsOfRows(exact.Logits(0), 0, kEngageAt));
  EXPECT_FALSE(BitsOfRows(rounds.Logits(sparse), kEngageAt, all) ==
               BitsOfRows(exact.Logits(0), kEngageAt, all));
  // And they are close.
  double error = 0;
  double norm = 0;
  for (size_t r = kEngageAt; r < all; ++r) {
    for (size_t i = 0; i < exact.Logits(0)[r].size(); ++i) {
      error += std::pow(rounds.Logits(sparse)[r][i] - exact.Logits(0)[r][i], 2);
      norm += std::pow(exact.Logits(0)[r][i], 2);
    }
  }
  EXPECT_LT(std::sqrt(error / norm), 0.1);
}

TEST(SparseRounds, SayWhatTheyRead) {
  const TinyModel model(ShapeOf(DType::kF16));
  Rounds rounds(model, {.threads = 2}, 2, kSparse);
  const size_t sequence = rounds.Add(Text(1));
  const size_t exact = rounds.Add(Text(2), true);
  while (rounds.Left(sequence) > 8) {
    rounds.Run({{exact, 1}, {sequence, std::min(200, rounds.Left(sequence) - 8)}});
  }
  rounds.Run({{exact, 1}, {sequence, 8}});
  EXPECT_EQ(rounds.backend().ReadingsOf(0).far_blocks, 0);
  const SparseReadings readings = rounds.backend().ReadingsOf(1);
  // Two layers, four heads, two row groups (1397 ... 1404), one far segment of 64 blocks.
  EXPECT_EQ(readings.far_blocks, 2 * 4 * 2 * 64);
  EXPECT_GT(readings.chosen_blocks, 0);
  EXPECT_LE(readings.residual_max, 0.2F);
}

TEST(SparseRounds, OnlyPlainLayersHaveAPartOfASealedSegment) {
  const struct {
    const char* what;
    void (*change)(AttentionOp* op);
    bool sparse;
  } kCases[] = {
      {"plain", [](AttentionOp*) {}, true},
      {"window", [](AttentionOp* op) { op->window = 4096; }, false},
      {"soft cap", [](AttentionOp* op) { op->soft_cap = 30; }, false},
      {"sink logits", [](AttentionOp* op) { op->sink_logits = WeightId{3}; }, false},
      {"temperature", [](AttentionOp* op) { op->temperature_length = 8192; }, false},
  };
  const KvLayout layout({{2, 32, 16, DType::kF16, 0}});
  for (const auto& c : kCases) {
    Program program;
    AttentionOp op{};
    c.change(&op);
    program.operations.emplace_back(op);
    const SealedLayout sealed = SealedLayoutOf(program, layout, 16);
    EXPECT_EQ(sealed.has(0), c.sparse) << c.what;
    EXPECT_EQ(sealed.segment_bytes() > 0, c.sparse) << c.what;
  }
}

TEST(SparseRounds, AModelWithoutPlainLayersIsExactBitForBit) {
  TinyShape shape = ShapeOf(DType::kF16);
  shape.soft_cap = 5;
  const TinyModel model(shape);
  Rounds exact(model, {.threads = 1}, 1);
  RunAlone(exact, exact.Add(Text(1)), {256});
  Rounds rounds(model, {.threads = 1}, 1, kSparse);
  RunAlone(rounds, rounds.Add(Text(1)), {256});
  EXPECT_TRUE(BitsOfRows(rounds.Logits(0), 0, kPrompt + kGenerated) ==
              BitsOfRows(exact.Logits(0), 0, kPrompt + kGenerated));
  EXPECT_EQ(rounds.backend().sealed_bytes(), 0);
}

// As after a match in the prefix cache: keys are there, no segment is.
size_t AddUnsealed(Rounds& rounds) {
  const size_t sequence = rounds.Add(Text(1));
  while (rounds.Left(sequence) > kGenerated + 184) {
    // Exactly so far: positions up to kEngageAt are.
    RoundInputs inputs = rounds.Prepare({{sequence, 64}});
    inputs.sealed_table = {};
    inputs.sealed_table_begin = {};
    rounds.RunPrepared({{sequence, 64}}, inputs);
  }
  return sequence;
}

TEST(SparseRounds, ASegmentMayBeSealedLateAtOnceOrByAndByBesideOthersOrAlone) {
  const TinyModel model(ShapeOf(DType::kF16));
  Rounds want(model, {.threads = 1}, 1, kSparse);
  RunAlone(want, want.Add(Text(1)), {256});
  const struct {
    const char* what;
    bool late;     // a round without its rows seals the first layer
    bool company;  // of another's rows
    int32_t threads;
  } kCases[] = {{"at once", false, false, 1},
                {"by and by, alone", true, false, 1},
                {"by and by, in company", true, true, 2}};
  for (const auto& c : kCases) {
    Rounds rounds(model, {.threads = c.threads}, 2, kSparse);
    const size_t sequence = AddUnsealed(rounds);
    EXPECT_EQ(rounds.backend().sealed_layers(), 2);
    std::vector<SealRange> seals = {{0, 2}};
    if (c.late) {
      std::vector<Chunk> chunks = {{sequence, 0}};
      std::vector<SealRange> first = {{0, 1}};
      if (c.company) {
        chunks.push_back({rounds.Add(Text(2)), 40});
        first.push_back({0, 0});
      }
      RoundInputs inputs = rounds.Prepare(chunks);
      inputs.seals = first;
      rounds.RunPrepared(chunks, inputs);
      seals = {{1, 2}};
    }
    RoundInputs inputs = rounds.Prepare({{sequence, 184}});
    inputs.seals = seals;
    rounds.RunPrepared({{sequence, 184}}, inputs);
    EXPECT_TRUE(BitsOfRows(rounds.Logits(0), 0, kPrompt) == BitsOfRows(want.Logits(0), 0, kPrompt))
        << c.what;
  }
}

}  // namespace
}  // namespace remontoir::testing
