// Facts about products of heads' own matrices: each head has its own values, the rest of its run is
// copied, and neither threads nor the rows of a round change a bit.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"
#include "kernels/dequantise.h"
#include "tests/support/bits.h"
#include "tests/support/kernel_cases.h"

namespace remontoir::testing {
namespace {

constexpr int32_t kHeads = 3;
constexpr int32_t kInRun = 96;
constexpr int32_t kInWidth = 64;  // then come values that no matrix sees
constexpr int32_t kOutRun = 80;
constexpr int32_t kOutWidth = 45;  // no whole panels
constexpr int32_t kCopied = kInRun - kInWidth;
constexpr int32_t kRowsMax = 70;  // beyond the 64 rows of a tile

struct HeadCase {
  DType type;
  bool fine;
  double error_max;  // relative to the sum of a product's magnitudes
};

// What 8-bit activations may do is bounded loosely: the product kernels have tests of their own.
constexpr HeadCase kCases[] = {
    {DType::kF32, false, 1e-5},
    {DType::kF16, false, 1e-5},
    {DType::kQ8_0, false, 1e-2},
    {DType::kQ8_0, true, 1e-4},
};

// Bytes of random weights in a type, and what they stand for.
struct Weights {
  TensorView view;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

Weights MakeWeights(DType type, std::array<int64_t, 4> shape, int rank, uint64_t seed) {
  const int64_t count = shape[0] * shape[1] * shape[2];
  Weights weights;
  weights.bytes = RandomWeights(type, count, seed);
  weights.values.resize(static_cast<size_t>(count));
  DequantiseRow(type, weights.bytes.data(), count, weights.values.data());
  weights.view = {type, rank, shape, weights.bytes.data(),
                  static_cast<int64_t>(weights.bytes.size())};
  return weights;
}

class HeadProducts {
 public:
  explicit HeadProducts(const HeadCase& c)
      : case_(c),
        embedding_(MakeWeights(DType::kF32, {kHeads * kInRun, kRowsMax, 1, 1}, 2, 3)),
        matrices_(MakeWeights(c.type, {kInWidth, kOutWidth, kHeads, 1}, 3, 4)) {}

  // The rows [kHeads * kOutRun] that tokens 0 ... rows - 1 give.
  std::vector<float> Run(int32_t threads, int32_t first_row, int32_t rows) const {
    auto backend = MakeCpuBackend({.threads = threads});
    REM_CHECK(backend.ok(), backend.status().message());
    Program program;
    program.vocabulary_size = kRowsMax;
    const ActivationId in = program.AddActivation("in", kHeads * kInRun);
    const ActivationId out = program.AddActivation("out", kHeads * kOutRun);
    const ActivationId last = program.AddActivation("last", kHeads * kInRun, RowSpace::kLogits);
    program.operations = {
        EmbedOp{*(*backend)->AddEmbedding(embedding_.view, "embedding"), in},
        HeadMatMulOp{.in = in,
                     .out = out,
                     .weight = *(*backend)->AddExpertMatrices(matrices_.view, "matrices"),
                     .heads = kHeads,
                     .in_width = kInWidth,
                     .out_width = kOutWidth,
                     .fine_activations = case_.fine},
        CopyHeadsOp{.in = in,
                    .out = out,
                    .heads = kHeads,
                    .in_begin = kInWidth,
                    .out_begin = kOutWidth,
                    .width = kCopied},
        GatherLogitRowsOp{in, last},
        LogitsOp{.in = last, .weight = *(*backend)->AddMatrix(embedding_.view, "head")}};
    const KvLayout layout({{.kv_heads = 1, .key_width = 8, .value_width = 8}});
    const Status status = (*backend)->Prepare(std::move(program), layout, {.arena_pages = 2},
                                              {kRowsMax, 1, 1, 2 * kKvPageTokens});
    REM_CHECK(status.ok(), status.message());
    std::vector<int32_t> tokens(static_cast<size_t>(rows));
    std::vector<int32_t> positions(tokens.size());
    std::iota(tokens.begin(), tokens.end(), first_row);
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<int32_t> cu_q = {0, rows};
    const std::vector<int64_t> cu_k = {0, rows};
    const std::vector<KvPageId> pages = {KvPageId{0}, KvPageId{1}};
    const std::vector<int32_t> pages_begin = {0, 2};
    (*backend)->Run({tokens, positions, cu_q, cu_k, pages, pages_begin, {}});
    const auto all = (*backend)->ActivationRows(out);
    return {all.begin(), all.end()};
  }

  struct Sum {
    double value = 0;
    double magnitude = 0;
  };
  Sum Expected(int32_t row, int32_t head, int32_t column) const {
    Sum sum;
    const float* weights = &matrices_.values[At(head, column)];
    for (int32_t k = 0; k < kInWidth; ++k) {
      const double term = double{In(row, head, k)} * double{weights[k]};
      sum.value += term;
      sum.magnitude += std::abs(term);
    }
    return sum;
  }
  float In(int32_t row, int32_t head, int32_t value) const {
    return embedding_.values[static_cast<size_t>((row * kHeads + head) * kInRun + value)];
  }

 private:
  static size_t At(int32_t head, int32_t column) {
    return static_cast<size_t>((head * kOutWidth + column) * kInWidth);
  }

  const HeadCase case_;
  const Weights embedding_;
  const Weights matrices_;
};

size_t At(int32_t row, int32_t head, int32_t value) {
  return static_cast<size_t>((row * kHeads + head) * kOutRun + value);
}

TEST(HeadMatMul, MultipliesEachHeadsFirstValuesWithItsOwnMatrix) {
  for (const HeadCase& c : kCases) {
    SCOPED_TRACE(std::string(Info(c.type).name) + (c.fine ? " fine" : ""));
    const HeadProducts products(c);
    const std::vector<float> out = products.Run(2, 0, kRowsMax);
    for (const int32_t row : {0, 1, 63, 64, kRowsMax - 1}) {
      for (int32_t head = 0; head < kHeads; ++head) {
        for (int32_t column = 0; column < kOutWidth; ++column) {
          const HeadProducts::Sum wanted = products.Expected(row, head, column);
          ASSERT_NEAR(out[At(row, head, column)], wanted.value, c.error_max * wanted.magnitude)
              << row << " " << head << " " << column;
        }
        for (int32_t value = 0; value < kCopied; ++value) {
          ASSERT_EQ(out[At(row, head, kOutWidth + value)],
                    products.In(row, head, kInWidth + value));
        }
      }
    }
  }
}

TEST(HeadMatMul, GivesARowTheSameBitsAloneAndWithAnyThreads) {
  for (const HeadCase& c : kCases) {
    SCOPED_TRACE(std::string(Info(c.type).name) + (c.fine ? " fine" : ""));
    const HeadProducts products(c);
    const std::vector<float> together = products.Run(1, 0, kRowsMax);
    const auto rows_of = [&](const std::vector<float>& out, int32_t row) {
      return BitsOf(&out[At(row, 0, 0)], size_t{kHeads} * kOutRun);
    };
    const std::vector<float> threaded = products.Run(3, 0, kRowsMax);
    for (int32_t row = 0; row < kRowsMax; row += 23) {
      EXPECT_EQ(rows_of(threaded, row), rows_of(together, row)) << row;
      EXPECT_EQ(rows_of(products.Run(2, row, 1), 0), rows_of(together, row)) << row;
    }
  }
}

}  // namespace
}  // namespace remontoir::testing
