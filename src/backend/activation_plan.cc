// The sums of the program compiler's TakeMemory and of AttentionScratch, from shapes alone.
#include "backend/activation_plan.h"

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

#include "backend/cpu_attention.h"
#include "kernels/activation_block.h"
#include "kernels/attention.h"
#include "tensor/sealed_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

constexpr int64_t kPartAlignment = 64;

// Sizes from a file multiply beyond 64 bits: such a program needs "more than there is".
using Wide = __int128;

Wide Aligned(Wide bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

// Forms of 8-bit blocks that an activation has: none, the plain one, or both halves of a fine one.
class BlockForms {
 public:
  explicit BlockForms(const Program& program) : forms_(program.activations.size()) {
    for (const Operation& operation : program.operations) {
      std::visit([this](const auto& op) { Mark(op); }, operation);
    }
  }

  int32_t of(size_t activation) const { return forms_[activation]; }

 private:
  template <class Op>
  void Mark(const Op&) {}
  void Mark(const MatMulOp& op) { MarkProducts(op); }
  void Mark(const GroupedMatMulOp& op) { MarkProducts(op); }
  void Mark(const HeadMatMulOp& op) { MarkInput(op.in, op.fine_activations); }
  void Mark(const LogitsOp& op) { MarkInput(op.in, op.fine_activations); }

  template <class Op>
  void MarkProducts(const Op& op) {
    for (int32_t p = 0; p < op.product_count; ++p) {
      MarkInput(op.in, op.products[static_cast<size_t>(p)].fine_activations);
    }
  }
  void MarkInput(ActivationId in, bool fine) {
    int32_t& forms = forms_[static_cast<size_t>(in)];
    forms = std::max(forms, fine ? 2 : 1);
  }

  std::vector<int32_t> forms_;
};

Wide ScratchBytes(const AttentionOp& op, const KvLayerShape& shape, const RoundLimits& limits,
                  int32_t workers) {
  const Wide rows = int64_t{kBundleGroups} * kRowGroupPositions * (op.heads / shape.kv_heads);
  const Wide value_bytes = int64_t{shape.value_width} * int64_t{sizeof(float)};
  const Wide state_bytes = int64_t{sizeof(SoftmaxState)} + value_bytes;
  const Wide each = rows * (int64_t{sizeof(AttentionRow)} + 2 * state_bytes);
  const int64_t partials = (int64_t{limits.context_max} + kKvPartialKeys - 1) / kKvPartialKeys + 1;
  const Wide groups = SplitGroupsMax(workers, shape.kv_heads, limits.sequences_max);
  return workers * each + groups * partials * op.heads * state_bytes;
}

// Of SparseScratch and SealScratch, rounded up.
Wide SparseBytes(const AttentionOp& op, const KvLayerShape& shape, const RoundLimits& limits,
                 int32_t workers) {
  if (limits.sparse.engage_at == 0) return 0;
  const Wide rows = std::max<int64_t>(kRowGroupPositions, op.heads / shape.kv_heads);
  const Wide segments = FarSegments(limits.context_max);
  const Wide blocks = segments * kSegmentKeys / limits.sparse.block_keys;
  const Wide widest = std::max(shape.key_width, shape.value_width) + 15;
  const Wide row = 2 * shape.key_width + 2 * blocks + 4;
  const Wide lists = blocks * 32 + segments * (kSegmentKeys / kKvPanelKeys) * 16 + 4096;
  const Wide seal = kSegmentKeys * (widest * 4 + 24) + 64 * widest * 4;
  return workers * (rows * row * 4 + lists + seal);
}

}  // namespace

int64_t ActivationBytesMax(const Program& program, const KvLayout& layout,
                           const RoundLimits& limits, int32_t workers, bool float32) {
  const BlockForms forms(program);
  Wide bytes = Aligned(Wide{limits.logit_rows_max} * program.vocabulary_size * sizeof(float));
  for (size_t i = 0; i < program.activations.size(); ++i) {
    const Activation& activation = program.activations[i];
    const Wide rows = activation.rows == RowSpace::kLogits ? limits.logit_rows_max
                      : activation.rows == RowSpace::kExperts
                          ? int64_t{limits.rows_max} * std::max(1, program.experts_used_max)
                          : limits.rows_max;
    bytes += Aligned(rows * activation.width * sizeof(float));
    if (float32) continue;
    const Wide blocks = activation.width / kActivationBlock * forms.of(i);
    bytes += Aligned(rows * blocks * sizeof(ActivationBlock));
  }
  Wide scratch = 0;
  Wide sparse = 0;
  for (const Operation& operation : program.operations) {
    if (const auto* op = std::get_if<AttentionOp>(&operation)) {
      const KvLayerShape& shape = layout.layer(op->layer);
      scratch = std::max(scratch, ScratchBytes(*op, shape, limits, workers));
      sparse = std::max(sparse, SparseBytes(*op, shape, limits, workers));
    }
  }
  return static_cast<int64_t>(
      std::min<Wide>(bytes + scratch + sparse, std::numeric_limits<int64_t>::max()));
}

}  // namespace remontoir
