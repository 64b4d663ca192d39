// Runs the back end's own steps on one thread: their tiles are what engines wait for.
#include "apps/bench_grouped_cases.h"

#include <cstring>
#include <memory>

#include "backend/cpu_matmul.h"

namespace remontoir {
namespace {

constexpr int32_t kExperts = 8;
constexpr int64_t kInWidth = 2048;
constexpr int64_t kOutWidth = 1024;  // of an expert
constexpr int32_t kRowsPerExpert[] = {4, 16, 64};
constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_K,  DType::kQ6_K,
                            DType::kQ8_0, DType::kMXFP4, DType::kBF16};

// Both steps and everything they read and write.
struct StepOperands {
  std::vector<std::byte> weights;
  PackedMatrices matrices;
  std::vector<float> values, outs;
  std::vector<ActivationBlock> blocks;
  ActivationMatrix in, out;
  RoundState round;
  std::unique_ptr<Step> step;
};

// Panels like kernels want them: in a vector with room to align.
std::byte* Aligned(std::vector<std::byte>* bytes) {
  constexpr uintptr_t kAlignment = 64;
  const auto address = reinterpret_cast<uintptr_t>(bytes->data());
  return bytes->data() + (kAlignment - address % kAlignment) % kAlignment;
}

void PackCopies(DType type, int64_t out_width, int32_t experts, StepOperands* o) {
  o->matrices.layout = PlanPacking(type, out_width, kInWidth, false);
  o->matrices.experts = experts;
  const int64_t panel_bytes = o->matrices.layout.panel_bytes;
  o->weights.resize(static_cast<size_t>(o->matrices.layout.bytes() * experts + 64));
  std::byte* packed = Aligned(&o->weights);
  const std::vector<std::byte> rows(static_cast<size_t>(RowBytes(type, kInWidth) * kPanelRows),
                                    std::byte{0x2c});
  PackPanels(PlanPacking(type, kPanelRows, kInWidth, false), type, rows.data(), 0, 1, packed);
  for (int64_t panel = 1; panel < o->matrices.layout.panel_count() * experts; ++panel) {
    std::memcpy(packed + panel * panel_bytes, packed, static_cast<size_t>(panel_bytes));
  }
  o->matrices.data = packed;
}

void MakeActivations(int32_t in_rows, int32_t out_rows, RowSpace out_space, int64_t out_width,
                     StepOperands* o) {
  o->values.assign(static_cast<size_t>(in_rows * kInWidth), 0.5f);
  o->blocks.resize(static_cast<size_t>(in_rows * kInWidth / kActivationBlock));
  for (ActivationBlock& block : o->blocks) std::memset(&block, 0x2c, sizeof block);
  o->outs.resize(static_cast<size_t>(out_rows * out_width));
  o->in.width = kInWidth;
  o->in.values = o->values.data();
  o->in.blocks = o->blocks.data();
  o->out.space = out_space;
  o->out.width = out_width;
  o->out.values = o->outs.data();
}

// Every token goes to one expert, neighbours to different ones.
void RouteInTurns(int32_t rows_per_expert, RoutingState* routing) {
  routing->used = 1;
  routing->first_row = {0};
  for (int32_t expert = 0; expert < kExperts; ++expert) {
    routing->active.push_back(expert);
    for (int32_t i = 0; i < rows_per_expert; ++i) {
      routing->token_of_row.push_back(i * kExperts + expert);
    }
    routing->first_row.push_back((expert + 1) * rows_per_expert);
  }
}

std::function<void()> PrepareStep(const KernelTable& kernels, DType type, int32_t rows,
                                  bool grouped) {
  auto operands = std::make_shared<StepOperands>();
  StepOperands& o = *operands;
  const int32_t in_rows = grouped ? kExperts * rows : rows;
  const int64_t out_width = grouped ? kOutWidth : kExperts * kOutWidth;
  PackCopies(type, out_width, grouped ? kExperts : 1, &o);
  MakeActivations(in_rows, in_rows, grouped ? RowSpace::kExperts : RowSpace::kTokens, out_width,
                  &o);
  o.round.kernels = &kernels;
  o.round.rows = {in_rows, in_rows, 0};
  if (grouped) RouteInTurns(rows, &o.round.routing);
  ProductGroup group;
  group.in = &o.in;
  group.count = 1;
  group.products[0].weight = &o.matrices;
  group.products[0].out = &o.out;
  o.step = grouped ? MakeGroupedMatMulStep(o.round, group) : MakeMatMulStep(o.round, group);
  return [operands] {
    const int32_t tiles = operands->step->Begin();
    for (int32_t tile = 0; tile < tiles; ++tile) operands->step->RunTile(tile, 0);
  };
}

KernelCase StepCase(DType type, int32_t rows, bool grouped) {
  const PackedLayout layout = PlanPacking(type, kExperts * kOutWidth, kInWidth, false);
  KernelCase result;
  result.operation = grouped ? kGroupedProduct : kDenseProduct;
  result.type = Info(type).name;
  result.shape = std::to_string(rows) + " x " + std::to_string(kInWidth) + " x " +
                 std::to_string(kExperts) + " x " + std::to_string(kOutWidth);
  const double ops = 2.0 * rows * static_cast<double>(layout.out_width * layout.in_width);
  (IsFloatFormat(layout.format) ? result.f32_ops : result.int8_ops) = ops;
  result.bytes = static_cast<double>(layout.bytes());
  result.from_cache = false;
  result.prepare = [=](const KernelTable& kernels) {
    return PrepareStep(kernels, type, rows, grouped);
  };
  return result;
}

}  // namespace

std::vector<KernelCase> GroupedCases() {
  std::vector<KernelCase> cases;
  for (const DType type : kTypes) {
    for (const int32_t rows : kRowsPerExpert) {
      cases.push_back(StepCase(type, rows, false));
      cases.push_back(StepCase(type, rows, true));
    }
  }
  return cases;
}

}  // namespace remontoir
