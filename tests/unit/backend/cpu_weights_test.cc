// Facts about loading: what doesn't fit is refused by the tensor's name.
#include "backend/cpu_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace remontoir {
namespace {

using ::testing::HasSubstr;

const std::vector<std::byte>& Zeros() {
  static const std::vector<std::byte> zeros(64 * 64 * 4);
  return zeros;
}

TensorView View(DType type, std::vector<int64_t> shape) {
  TensorView view;
  view.type = type;
  view.rank = static_cast<int>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) view.shape[i] = shape[i];
  view.data = Zeros().data();
  view.size_bytes = static_cast<int64_t>(Zeros().size());
  return view;
}

TEST(CpuWeights, RefusesTensorsThatDontFitByName) {
  WorkerPool pool(2);
  using Add = std::function<Status(CpuWeights&, const TensorView&)>;
  const Add matrix = [](CpuWeights& w, const TensorView& v) {
    return w.AddMatrix(v, "blk.7.attn_q.weight").status();
  };
  const Add experts = [](CpuWeights& w, const TensorView& v) {
    return w.AddExpertMatrices(v, "blk.7.attn_q.weight").status();
  };
  const Add vector = [](CpuWeights& w, const TensorView& v) {
    return w.AddVector(v, "blk.7.attn_q.weight").status();
  };
  const Add embedding = [](CpuWeights& w, const TensorView& v) {
    return w.AddEmbedding(v, "blk.7.attn_q.weight").status();
  };
  TensorView no_data = View(DType::kF32, {8, 8});
  no_data.data = nullptr;
  TensorView cut = View(DType::kF32, {64, 64});
  --cut.size_bytes;
  TensorView hidden = View(DType::kF32, {8, 8});
  hidden.shape[2] = 2;
  struct Case {
    const char* name;
    const Add& add;
    TensorView view;
    const char* says;
  };
  for (const Case& c : {
           Case{"vector as matrix", matrix, View(DType::kF32, {64}), "rank 1, wanted 2"},
           Case{"matrix as experts", experts, View(DType::kF32, {64, 8}), "rank 2, wanted 3"},
           Case{"matrix as vector", vector, View(DType::kF32, {64, 8}), "rank 2, wanted 1"},
           Case{"experts as embedding", embedding, View(DType::kF32, {8, 8, 8}), "rank 3"},
           Case{"no rows", matrix, View(DType::kF32, {64, 0}), "impossible shape [0][64]"},
           Case{"too many rows", matrix, View(DType::kF32, {64, int64_t{1} << 40}), "impossible"},
           Case{"overflow", experts, View(DType::kF32, {1 << 30, 1 << 30, (int64_t{1} << 31) - 1}),
                "impossible"},
           Case{"a hidden dimension", matrix, hidden, "impossible shape"},
           Case{"broken blocks", matrix, View(DType::kQ8_0, {48, 8}), "no whole blocks of 32"},
           Case{"no bytes", matrix, no_data, "bytes are missing"},
           Case{"cut off", matrix, cut, "bytes are missing"},
       }) {
    SCOPED_TRACE(c.name);
    CpuWeights weights(pool, false);
    const Status status = c.add(weights, c.view);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("blk.7.attn_q.weight"));
    EXPECT_THAT(status.message(), HasSubstr(c.says));
  }
}

TEST(CpuWeights, HandsOutOnlyWhatFitsItsUse) {
  WorkerPool pool(1);
  CpuWeights weights(pool, false);
  const WeightId matrix = *weights.AddMatrix(View(DType::kQ8_0, {32, 20}), "a.matrix");
  const WeightId experts = *weights.AddExpertMatrices(View(DType::kF32, {8, 4, 3}), "experts");
  const WeightId vector = *weights.AddVector(View(DType::kF16, {20}), "a.vector");
  const WeightId table = *weights.AddEmbedding(View(DType::kF32, {8, 9}), "a.table");
  EXPECT_TRUE(weights.Matrices(matrix, 1, 20, 32).ok());
  EXPECT_TRUE(weights.Matrices(experts, 3, 4, 8).ok());
  EXPECT_TRUE(weights.Vector(vector, 20).ok());
  EXPECT_TRUE(weights.Embedding(table, 8).ok());
  EXPECT_GT(weights.bytes(), 0);

  EXPECT_THAT(weights.Matrices(matrix, 1, 21, 32).status().message(), HasSubstr("a.matrix"));
  EXPECT_THAT(weights.Matrices(experts, 4, 4, 8).status().message(),
              HasSubstr("shape [3][4][8], wanted [4][4][8]"));
  EXPECT_THAT(weights.Vector(vector, 21).status().message(), HasSubstr("20 values, wanted 21"));
  EXPECT_THAT(weights.Vector(matrix, 20).status().message(), HasSubstr("a.matrix"));
  EXPECT_THAT(weights.Matrices(table, 1, 9, 8).status().message(), HasSubstr("a.table"));
  EXPECT_THAT(weights.Embedding(vector, 20).status().message(), HasSubstr("a.vector"));
  EXPECT_FALSE(weights.Vector(kNoWeight, 20).ok());
  EXPECT_FALSE(weights.Vector(WeightId{99}, 20).ok());
}

TEST(CpuWeights, PanelsAreTheSameForAnyNumberOfWorkers) {
  std::vector<std::byte> file(static_cast<size_t>(RowBytes(DType::kQ4_0, 256) * 1000 * 2));
  for (size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::byte>(i * 37 % 61);
  TensorView view = View(DType::kQ4_0, {256, 1000, 2});
  view.data = file.data();
  view.size_bytes = static_cast<int64_t>(file.size());
  std::vector<std::vector<std::byte>> packed;
  for (int32_t workers : {1, 3}) {
    WorkerPool pool(workers);
    CpuWeights weights(pool, false);
    const WeightId id = *weights.AddExpertMatrices(view, "experts");
    const PackedMatrices& matrices = **weights.Matrices(id, 2, 1000, 256);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(matrices.data) % 64, 0u);
    packed.emplace_back(matrices.data, matrices.data + 2 * matrices.layout.bytes());
    EXPECT_EQ(matrices.Panel(1, 3),
              matrices.data + matrices.layout.bytes() + 3 * matrices.layout.panel_bytes);
  }
  EXPECT_EQ(packed[0], packed[1]);
}

}  // namespace
}  // namespace remontoir
