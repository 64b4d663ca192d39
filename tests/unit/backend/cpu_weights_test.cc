// Facts about loading: what doesn't fit is refused by the tensor's name.
#include "backend/cpu_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/kernel_cases.h"
#include "tests/support/temporary_folder.h"

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
    weights.Pack(RepackCache({}), nullptr);
    const PackedMatrices& matrices = **weights.Matrices(id, 2, 1000, 256);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(matrices.data) % 64, 0u);
    packed.emplace_back(matrices.data, matrices.data + 2 * matrices.layout.bytes());
    EXPECT_EQ(matrices.Panel(1, 3),
              matrices.data + matrices.layout.bytes() + 3 * matrices.layout.panel_bytes);
  }
  EXPECT_EQ(packed[0], packed[1]);
}

// A matrix and two experts of every type, with short last panels.
struct AllTypes {
  AllTypes() {
    for (const DType type : kAllTypes) {
      for (const int64_t experts : {1, 2}) {
        bytes.push_back(RandomWeights(type, int64_t{512} * 33 * experts, bytes.size()));
        TensorView& view = views.emplace_back(View(type, {512, 33}));
        if (experts > 1) view = View(type, {512, 33, experts});
        view.data = bytes.back().data();
        view.size_bytes = std::ssize(bytes.back());
      }
    }
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;
};

struct PackedWeights {
  WeightsReport report;
  std::vector<std::vector<std::byte>> panels;
};

PackedWeights PackAll(const std::vector<TensorView>& views, const RepackCache& cache,
                      bool float32 = false, const WeightsRead& on_read = nullptr) {
  WorkerPool pool(2);
  CpuWeights weights(pool, float32);
  for (const TensorView& view : views) {
    const auto id =
        view.rank == 2 ? weights.AddMatrix(view, "m") : weights.AddExpertMatrices(view, "m");
    EXPECT_TRUE(id.ok()) << id.status().message();
  }
  PackedWeights packed{weights.Pack(cache, on_read), {}};
  for (size_t i = 0; i < views.size(); ++i) {
    const auto experts = static_cast<int32_t>(views[i].shape[2]);
    const PackedMatrices& matrices = **weights.Matrices(WeightId(static_cast<int32_t>(i)), experts,
                                                        views[i].shape[1], views[i].columns());
    packed.panels.emplace_back(matrices.data, matrices.data + experts * matrices.layout.bytes());
  }
  return packed;
}

RepackCache CacheIn(const std::string& folder) { return RepackCache({folder, int64_t{1} << 30}); }

TEST(CpuWeights, PanelsFromTheCacheAreThosePackedForEveryType) {
  const AllTypes weights;
  for (const bool float32 : {false, true}) {
    const TemporaryFolder folder;
    const PackedWeights packed = PackAll(weights.views, RepackCache({}), float32);
    EXPECT_FALSE(packed.report.from_cache);
    const PackedWeights first = PackAll(weights.views, CacheIn(folder.path()), float32);
    EXPECT_FALSE(first.report.from_cache);
    const PackedWeights second = PackAll(weights.views, CacheIn(folder.path()), float32);
    EXPECT_TRUE(second.report.from_cache);
    EXPECT_TRUE(first.report.stored);
    EXPECT_FALSE(packed.report.stored || second.report.stored);
    EXPECT_EQ(first.panels, packed.panels);
    EXPECT_EQ(second.panels, packed.panels);
    EXPECT_EQ(second.report.bytes, packed.report.bytes);
    for (const WeightsReport& report : {packed.report, first.report, second.report}) {
      EXPECT_THAT(report.notes, testing::IsEmpty());
    }
  }
}

TEST(CpuWeights, ADamagedFileIsPackedAgainAndReplaced) {
  const AllTypes weights;
  const TemporaryFolder folder;
  const PackedWeights packed = PackAll(weights.views, CacheIn(folder.path()));
  const std::string name = folder.Files().at(0);
  const std::string whole = ReadFile(folder / name);
  for (const size_t place : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] + 1);
    folder.Write(name, damaged);
    int64_t done = 0;
    int64_t total = 0;
    const PackedWeights again = PackAll(weights.views, CacheIn(folder.path()), false,
                                        [&](WeightId, int64_t done_bytes, int64_t total_bytes) {
                                          done = done_bytes;
                                          total = total_bytes;
                                        });
    EXPECT_FALSE(again.report.from_cache);
    ASSERT_EQ(again.report.notes.size(), 1u);
    EXPECT_THAT(again.report.notes[0], HasSubstr("packed from the model"));
    EXPECT_EQ(again.panels, packed.panels);
    EXPECT_EQ(ReadFile(folder / name), whole);
    EXPECT_EQ(done, total);
  }
}

TEST(CpuWeights, OtherWeightsHaveOtherFiles) {
  const TemporaryFolder folder;
  std::vector<std::byte> bytes = RandomWeights(DType::kQ4_0, 64 * 96, 1);
  const auto pack = [&](DType type, std::vector<int64_t> shape, bool float32) {
    TensorView view = View(type, std::move(shape));
    view.data = bytes.data();
    view.size_bytes = std::ssize(bytes);
    return PackAll({view}, CacheIn(folder.path()), float32).report.from_cache;
  };
  EXPECT_FALSE(pack(DType::kQ4_0, {64, 96}, false));
  EXPECT_TRUE(pack(DType::kQ4_0, {64, 96}, false));
  EXPECT_FALSE(pack(DType::kIQ4_NL, {64, 96}, false));  // blocks of the same size
  EXPECT_FALSE(pack(DType::kQ4_0, {96, 64}, false));
  EXPECT_FALSE(pack(DType::kQ4_0, {64, 48, 2}, false));
  EXPECT_FALSE(pack(DType::kQ4_0, {64, 96}, true));
  bytes.back() ^= std::byte{1};
  EXPECT_FALSE(pack(DType::kQ4_0, {64, 96}, false));
  EXPECT_EQ(folder.Files().size(), 6u);
}

TEST(CpuWeights, AFolderThatCantBeWrittenIsANote) {
  const AllTypes weights;
  const TemporaryFolder folder;
  folder.Write("file", "in the way");
  const PackedWeights packed = PackAll(weights.views, CacheIn(folder / "file/cache"));
  EXPECT_EQ(packed.panels, PackAll(weights.views, RepackCache({})).panels);
  EXPECT_FALSE(packed.report.stored);
  ASSERT_FALSE(packed.report.notes.empty());
  EXPECT_THAT(packed.report.notes.back(), HasSubstr("not written"));
}

TEST(CpuWeights, WhatTheCacheMayNotHoldIsNotEvenLookedFor) {
  const AllTypes weights;
  const TemporaryFolder folder;
  int calls = 0;
  const PackedWeights packed = PackAll(weights.views, RepackCache({folder.path(), 1000}), false,
                                       [&](WeightId, int64_t, int64_t) { ++calls; });
  EXPECT_EQ(packed.panels, PackAll(weights.views, RepackCache({})).panels);
  EXPECT_THAT(folder.Files(), testing::IsEmpty());
  EXPECT_EQ(calls, std::ssize(weights.views));  // each was read once
}

// When this fails because packing changed, raise kPackingVersion: users keep packed weights on
// disk.
TEST(CpuWeights, PackedBytesAreThoseOfThePackingVersion) {
  EXPECT_EQ(kPackingVersion, 2);
  const struct {
    DType type;
    const char* hash;
  } kCases[] = {
      {DType::kF32, "59ad095a2ccf6324c94d77d0b65c093f"},
      {DType::kF16, "aa40a9ebbbcc7efb7ee8cf286fa357dc"},
      {DType::kBF16, "002da04a0aaa1f953f2abd96766ce085"},
      {DType::kQ4_0, "c85104ddd16a5a3e7e008c9e7542bd65"},
      {DType::kQ4_1, "7616f7a9674fcd21dae640d04d912a99"},
      {DType::kQ5_0, "8065c61eebbcf9bfe5dc9feba90adf61"},
      {DType::kQ5_1, "505f06c9ee2219aa89cc97abc6d02dcf"},
      {DType::kQ8_0, "f02a70f9d51b379b11975c33331d7c9d"},
      {DType::kQ2_K, "e0e9fa786036d633c08b35b68917d802"},
      {DType::kQ3_K, "b13d01b9eff6617bef84a30621e3f912"},
      {DType::kQ4_K, "464fb58b492174cdd411e7249e11438f"},
      {DType::kQ5_K, "e356ee23aa66b92ef0f2a0329eb74106"},
      {DType::kQ6_K, "30f8b4aa0164a388fbad36ff63732a3e"},
      {DType::kIQ4_NL, "c85104ddd16a5a3e7e008c9e7542bd65"},
      {DType::kIQ4_XS, "8ed53319276c2be7d62c882974bc73eb"},
      {DType::kMXFP4, "49aff9e0aa77446aa08dfef4bdaea5fb"},
      {DType::kTQ1_0, "b182ec182666a70a70e8fb6c324e293e"},
      {DType::kTQ2_0, "9d956c9b96d2bb1301f5affddce85c59"},
      {DType::kIQ1_S, "c1b8f88685d4b9d85f292aed6f28e5fb"},
      {DType::kIQ1_M, "22e03f387b5204d123097f00de2e4ae5"},
      {DType::kIQ2_XXS, "ff1a968d5e765cbeea97507cbba2dddc"},
      {DType::kIQ2_XS, "af2ca5e5143cdbcc70ae9c438716c31c"},
      {DType::kIQ2_S, "ad84bf79a06817eca762ce7e48e4ad3d"},
      {DType::kIQ3_XXS, "ce9524941596bf9b78f6d66cdcb94ea0"},
      {DType::kIQ3_S, "cde3cecc692157fece931df3b2fd96cb"},
      {DType::kNVFP4, "7af2207deb2978bf5e938bb2e74cad41"},
  };
  ASSERT_EQ(std::size(kCases), std::size(kAllTypes));
  for (const auto& test : kCases) {
    const std::vector<std::byte> bytes = RandomWeights(test.type, 512 * 33, 1);
    const PackedLayout layout = PlanPacking(test.type, 33, 512, false);
    std::vector<std::byte> packed(static_cast<size_t>(layout.bytes()));
    PackPanels(layout, test.type, bytes.data(), 0, layout.panel_count(), packed.data());
    EXPECT_EQ(HashBytes(packed).Hex(), test.hash) << Info(test.type).name;
  }
}

}  // namespace
}  // namespace remontoir
