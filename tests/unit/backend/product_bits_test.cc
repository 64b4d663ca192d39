// Products as the back end runs them, by seed: threads, rows of a round and the tiles that follow
// from both change no bit of a row.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"
#include "base/random.h"
#include "tests/support/bits.h"
#include "tests/support/kernel_cases.h"

namespace remontoir::testing {
namespace {

constexpr int32_t kRowsMax = 70;  // beyond the 64 rows of a tile

// A program of products alone: three of one input, experts' ones, and the logits.
struct ProductShape {
  int32_t in_width = 0;
  std::array<int32_t, 3> out_widths = {};
  std::array<DType, 3> types = {};
  std::array<bool, 3> fine = {};
  bool biases = false;
  int32_t experts = 0;
  DType expert_type = DType::kF32;
  int32_t expert_width = 0;
  float soft_cap = 0;
};

ProductShape ShapeOf(uint64_t seed) {
  const CounterRandom random(seed, 21);
  uint64_t n = 0;
  const auto pick = [&](uint64_t count) { return static_cast<int32_t>(random.Bits(n++) % count); };
  ProductShape shape;
  shape.in_width = 256 * (1 + pick(3));
  for (size_t i = 0; i < 3; ++i) {
    shape.out_widths[i] = 1 + pick(260);
    // Every type comes up by the time that the seed has run over them.
    shape.types[i] = kAllTypes[(3 * seed + i) % std::size(kAllTypes)];
    shape.fine[i] = pick(2) == 0;
  }
  shape.biases = pick(2) == 0;
  shape.experts = 2 + pick(4);
  shape.expert_type = kAllTypes[(seed + 5) % std::size(kAllTypes)];
  shape.expert_width = 256 + 32 * pick(3);
  if (Info(shape.expert_type).block_elements == 256) shape.expert_width = 256;
  shape.soft_cap = pick(2) == 0 ? 0.0F : 3.0F;
  return shape;
}

// The weights of a shape and the program on any back end.
class Products {
 public:
  Products(const ProductShape& shape, uint64_t seed) : shape_(shape), seed_(seed) {}

  void Load(Backend& backend) {
    Program program;
    program.vocabulary_size = shape_.out_widths[0];
    program.experts_used_max = 2;
    const ActivationId in = program.AddActivation("in", shape_.in_width);
    program.operations.push_back(EmbedOp{Embedding(backend), in});
    AddDense(backend, in, &program);
    AddExperts(backend, in, &program);
    const auto rows = program.AddActivation("rows", shape_.in_width, RowSpace::kLogits);
    program.operations.push_back(GatherLogitRowsOp{in, rows});
    program.operations.push_back(LogitsOp{
        .in = rows,
        .weight = Matrix(backend, shape_.types[0], shape_.out_widths[0], shape_.in_width, 1),
        .scale = 0.75F,
        .soft_cap = shape_.soft_cap,
        .fine_activations = shape_.fine[1]});
    const KvLayout layout({{.kv_heads = 1, .key_width = 8, .value_width = 8}});
    const Status status = backend.Prepare(std::move(program), layout, {.arena_pages = 2},
                                          {kRowsMax, 1, kRowsMax, 2 * kKvPageTokens, {}});
    REM_CHECK(status.ok(), status.message());
  }

  // Runs these tokens and returns the bits of each one's outputs.
  std::vector<std::vector<uint32_t>> Run(Backend& backend, std::vector<int32_t> tokens) const {
    const auto rows = static_cast<int32_t>(tokens.size());
    std::vector<int32_t> places(tokens.size());
    std::iota(places.begin(), places.end(), 0);
    const std::vector<int32_t> cu_q = {0, rows};
    const std::vector<int64_t> cu_k = {0, rows};
    const std::vector<KvPageId> pages = {KvPageId{0}, KvPageId{1}};
    const std::vector<int32_t> pages_begin = {0, (rows + kKvPageTokens - 1) / kKvPageTokens};
    backend.Run({tokens, places, cu_q, cu_k,
                 std::span(pages).first(static_cast<size_t>(pages_begin[1])), pages_begin, places});
    std::vector<std::vector<uint32_t>> bits(tokens.size());
    for (size_t r = 0; r < bits.size(); ++r) {
      const auto append = [&](std::span<const float> row) {
        const auto words = BitsOf(row.data(), row.size());
        bits[r].insert(bits[r].end(), words.begin(), words.end());
      };
      for (const ActivationId out : outputs_) {
        const auto all = backend.ActivationRows(out);
        const size_t width = all.size() / tokens.size();
        append(all.subspan(r * width, width));
      }
      append(backend.Logits(static_cast<int32_t>(r)));
    }
    return bits;
  }

 private:
  void AddDense(Backend& backend, ActivationId in, Program* program) {
    MatMulOp op{.in = in, .products = {}, .product_count = 3};
    for (size_t i = 0; i < 3; ++i) {
      MatMulOp::Product& product = op.products[i];
      product.out = Output(program->AddActivation("out", shape_.out_widths[i]));
      product.weight = Matrix(backend, shape_.types[i], shape_.out_widths[i], shape_.in_width, 1);
      if (shape_.biases) product.bias = Vector(backend, shape_.out_widths[i]);
      product.fine_activations = shape_.fine[i];
    }
    program->operations.push_back(op);
  }

  void AddExperts(Backend& backend, ActivationId in, Program* program) {
    const auto router = Output(program->AddActivation("router", shape_.experts));
    const auto inner = program->AddActivation("inner", shape_.expert_width, RowSpace::kExperts);
    const auto outer = program->AddActivation("outer", shape_.out_widths[1], RowSpace::kExperts);
    const auto combined = Output(program->AddActivation("combined", shape_.out_widths[1]));
    MatMulOp route{.in = in, .products = {}, .product_count = 1};
    route.products[0] = {.weight = Matrix(backend, DType::kF32, shape_.experts, shape_.in_width, 1),
                         .out = router};
    program->operations.push_back(route);
    program->operations.push_back(RouteOp{router, shape_.experts, 2, true});
    GroupedMatMulOp up{.in = in, .products = {}, .product_count = 1};
    up.products[0] = {.weight = Matrix(backend, shape_.expert_type, shape_.expert_width,
                                       shape_.in_width, shape_.experts),
                      .out = inner,
                      .bias = ExpertBias(backend, shape_.expert_width)};
    program->operations.push_back(up);
    GroupedMatMulOp down{.in = inner, .products = {}, .product_count = 1};
    down.products[0] = {.weight = Matrix(backend, shape_.expert_type, shape_.out_widths[1],
                                         shape_.expert_width, shape_.experts),
                        .out = outer,
                        .bias = ExpertBias(backend, shape_.out_widths[1])};
    program->operations.push_back(down);
    program->operations.push_back(ExpertCombineOp{outer, combined});
  }

  ActivationId Output(ActivationId id) {
    outputs_.push_back(id);
    return id;
  }

  TensorView View(DType type, int rank, int64_t columns, int64_t rows, int64_t experts) {
    const uint64_t seed = 1000 * seed_ + tensors_.size();
    if (type == DType::kF32) {  // normal values
      const auto values = Normals(static_cast<size_t>(columns * rows * experts), seed);
      tensors_.emplace_back(values.size() * sizeof(float));
      std::memcpy(tensors_.back().data(), values.data(), tensors_.back().size());
    } else {
      tensors_.push_back(RandomWeights(type, columns * rows * experts, seed));
    }
    TensorView view;
    view.type = type;
    view.rank = rank;
    view.shape = {columns, rows, experts, 1};
    view.data = tensors_.back().data();
    view.size_bytes = std::ssize(tensors_.back());
    return view;
  }

  WeightId Matrix(Backend& backend, DType type, int64_t rows, int64_t columns, int64_t experts) {
    const TensorView view = View(type, experts > 1 ? 3 : 2, columns, rows, experts);
    const auto id =
        experts > 1 ? backend.AddExpertMatrices(view, "m") : backend.AddMatrix(view, "m");
    REM_CHECK(id.ok(), id.status().message());
    return *id;
  }
  WeightId Vector(Backend& backend, int64_t width) {
    const auto id = backend.AddVector(View(DType::kF32, 1, width, 1, 1), "v");
    REM_CHECK(id.ok(), id.status().message());
    return *id;
  }
  WeightId ExpertBias(Backend& backend, int64_t width) {
    return shape_.biases ? Vector(backend, width * shape_.experts) : kNoWeight;
  }
  WeightId Embedding(Backend& backend) {
    const auto id =
        backend.AddEmbedding(View(DType::kF32, 2, shape_.in_width, kRowsMax, 1), "embedding");
    REM_CHECK(id.ok(), id.status().message());
    return *id;
  }

  const ProductShape shape_;
  const uint64_t seed_;
  std::deque<std::vector<std::byte>> tensors_;
  std::vector<ActivationId> outputs_;  // in token rows
};

// A back end with the products of this seed, and those.
struct Loaded {
  Loaded(uint64_t seed, int32_t threads, ComputeMode compute) : products(ShapeOf(seed), seed) {
    auto made = MakeCpuBackend({threads, compute});
    REM_CHECK(made.ok(), made.status().message());
    backend = std::move(*made);
    products.Load(*backend);
  }
  Products products;
  std::unique_ptr<Backend> backend;
};

TEST(BackendProducts, HaveTheBitsOfOneRowAndOneThread) {
  int count = 0;  // of rounds: they run over every number of rows
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const ComputeMode compute = seed % 5 == 4 ? ComputeMode::kF32 : ComputeMode::kAuto;
    std::vector<std::vector<uint32_t>> alone;
    Loaded one(seed, 1, compute);
    for (int32_t token = 0; token < kRowsMax; ++token) {
      alone.push_back(one.products.Run(*one.backend, {token})[0]);
    }
    for (const int32_t threads : {1, 2, 3, 4}) {
      Loaded many(seed, threads, compute);
      for (const int32_t rows : {1 + count % kRowsMax, 1 + (count + 35) % kRowsMax, kRowsMax}) {
        std::vector<int32_t> tokens;
        for (int32_t r = 0; r < rows; ++r) tokens.push_back((r * 11 + count) % kRowsMax);
        const auto together = many.products.Run(*many.backend, tokens);
        for (size_t r = 0; r < tokens.size(); ++r) {
          ASSERT_EQ(together[r], alone[static_cast<size_t>(tokens[r])])
              << "seed " << seed << ", " << threads << " threads, row " << r << " of " << rows;
        }
      }
      ++count;
    }
  }
}

}  // namespace
}  // namespace remontoir::testing
