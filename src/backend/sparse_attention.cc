// Local keys, estimate, choice, far part, chosen blocks: in this order, so that one rescaling
// covers the local and the far part.
#include "backend/sparse_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "kernels/math_scalar.h"

namespace remontoir {
namespace {

// Of what the rows of a group may leave, so much is left to them together; what is still too much
// for one of them it adds itself. Lists are hardly shorter with 0.75, and predictions further off
// (docs/attention.md).
constexpr float kTogetherPart = 0.6F;

}  // namespace

void SparseScratch::Reserve(int64_t rows, const SealedShape& shape, int32_t segments_max) {
  const auto grow = [](auto* values, int64_t count) {
    values->resize(std::max(values->size(), static_cast<size_t>(count)));
  };
  const int64_t blocks = int64_t{segments_max} * shape.blocks();
  grow(&queries_, rows * shape.key_width);
  grow(&query_bytes_, rows * 2 * QueryByteStride(shape.key_width));
  grow(&query_scales_, rows);
  grow(&weights_, rows * blocks);
  grow(&growths_, rows * blocks);
  grow(&weight_max_, rows);
  grow(&factors_, rows);
  grow(&totals_, rows);
  grow(&left_, rows);
  grow(&error_factors_, rows);
  grow(&error_floors_, rows);
  grow(&joined_, blocks);
  grow(&panels_, blocks / kPanelBlocks);
  grow(&means_, segments_max);
  grow(&chosen_, blocks / kPanelBlocks);
  grow(&key_panels_, std::max<int64_t>(int64_t{segments_max} * (kSegmentKeys / kKvPanelKeys),
                                       kLocalBlocksMax * kTilePanels));
}

int64_t SparseScratch::bytes() const {
  const size_t floats = queries_.size() + weights_.size() + growths_.size() + weight_max_.size() +
                        factors_.size() + totals_.size() + error_factors_.size() +
                        error_floors_.size() + joined_.size();
  return static_cast<int64_t>(
      floats * sizeof(float) + (panels_.size() + means_.size()) * sizeof(void*) +
      query_bytes_.size() + query_scales_.size() * sizeof(QueryBytes) +
      left_.size() * sizeof(BlockTotals) + chosen_.size() * sizeof(uint16_t) +
      key_panels_.size() * sizeof(SealedPanel));
}

class SparseGroupRun {
 public:
  SparseGroupRun(const KernelTable& kernels, const SealedShape& shape,
                 const SparseSettings& settings, const SparseGroup& group, SparseScratch& scratch)
      : kernels_(kernels),
        shape_(shape),
        offsets_(OffsetsOf(shape)),
        settings_(settings),
        group_(group),
        scratch_(scratch),
        panel_count_(group.segment_count * shape.panels()),
        stride_(int64_t{panel_count_} * kPanelBlocks) {
    REM_CHECK(scratch.weights_.size() >= static_cast<size_t>(group.row_count * stride_) &&
                  group.local_block_count <= kLocalBlocksMax &&
                  scratch.queries_.size() >=
                      static_cast<size_t>(int64_t{group.row_count} * shape.key_width),
              "scratch for a group of this size");
  }

  SparseCounts Run() {
    std::fill_n(group_.residuals, group_.row_count, 0.0F);
    const auto far_blocks = static_cast<int32_t>(stride_);
    if (far_blocks == 0) {
      AttendEdge(0);
      return {};
    }
    ScaleQueries();
    AttendLocal();
    Estimate();
    if (!Choose()) std::fill_n(scratch_.chosen_.data(), panel_count_, uint16_t{0xffff});
    const int chosen = AttendChosen();
    return {far_blocks, chosen};
  }

 private:
  float* Weights(int row) { return scratch_.weights_.data() + row * stride_; }
  float* Growths(int row) { return scratch_.growths_.data() + row * stride_; }

  // Pages that all rows see as a whole go as panels, like the chosen blocks: faster for so few
  // rows.
  void AttendLocal() {
    int whole = 0;
    if (kernels_.attend_panels[static_cast<size_t>(group_.kv_type)] != nullptr) {
      const int32_t key_end = group_.rows[0].key_end;
      while (whole < group_.local_block_count &&
             (group_.local_blocks[whole].block + 1) * kKvPageTokens <= key_end) {
        ++whole;
      }
    }
    AttendEdge(whole);
    int count = 0;
    for (int b = 0; b < whole; ++b) {
      const KeyBlock& block = group_.local_blocks[b];
      for (int p = 0; p < kTilePanels; ++p) AddPanel(block.keys, block.values, p, count++);
    }
    if (count > 0) AttendPanels(group_.kv_type, count);
  }

  // The local pages from `first` on; begins the rows' sums.
  void AttendEdge(int first) {
    AttentionPartial local{};
    local.rows = group_.rows;
    local.row_count = group_.row_count;
    local.blocks = group_.local_blocks + first;
    local.block_count = group_.local_block_count - first;
    local.key_width = shape_.key_width;
    local.value_width = shape_.value_width;
    local.scale = group_.scale;
    local.states = group_.states;
    local.sums = group_.sums;
    kernels_.attention_partial[static_cast<size_t>(group_.kv_type)](local);
  }

  // The sixteen keys at 16 * panel as entry `index` of the list.
  void AddPanel(const std::byte* keys, const std::byte* values, int64_t panel, int index) {
    scratch_.key_panels_[static_cast<size_t>(index)] = {
        keys + panel * kKvPanelKeys * RowBytes(shape_.type, shape_.key_width),
        values + panel * kKvPanelKeys * RowBytes(shape_.type, shape_.value_width)};
  }

  void AttendPanels(DType type, int count) {
    PanelAttention attention{};
    attention.queries = scratch_.queries_.data();
    attention.row_count = group_.row_count;
    attention.panels = scratch_.key_panels_.data();
    attention.panel_count = count;
    attention.key_width = shape_.key_width;
    attention.value_width = shape_.value_width;
    attention.states = group_.states;
    attention.sums = group_.sums;
    kernels_.attend_panels[static_cast<size_t>(type)](attention);
  }

  void ScaleQueries() {
    const int64_t stride = QueryByteStride(shape_.key_width);
    for (int r = 0; r < group_.row_count; ++r) {
      kernels_.scale_query({group_.rows[r].query, shape_.key_width, group_.scale * scalar::kLog2E,
                            scratch_.queries_.data() + int64_t{r} * shape_.key_width,
                            scratch_.query_bytes_.data() + 2 * r * stride,
                            &scratch_.query_scales_[static_cast<size_t>(r)]});
    }
  }

  // Every row's weights and growths, and its largest weight.
  void Estimate() {
    size_t panel = 0;
    for (int s = 0; s < group_.segment_count; ++s) {
      const std::byte* statistics = group_.segments[s] + offsets_.statistics;
      for (int p = 0; p < shape_.panels(); ++p) {
        scratch_.panels_[panel++] = statistics + p * StatisticsPanelBytes(shape_.key_width);
      }
    }
    BlockEstimate estimate{};
    estimate.queries = scratch_.queries_.data();
    estimate.bytes = scratch_.query_bytes_.data();
    estimate.scales = scratch_.query_scales_.data();
    estimate.row_count = group_.row_count;
    estimate.panels = scratch_.panels_.data();
    estimate.panel_count = panel_count_;
    estimate.key_width = shape_.key_width;
    estimate.log2_block_keys =
        static_cast<float>(std::bit_width(static_cast<uint32_t>(shape_.block_keys)) - 1);
    estimate.weights = scratch_.weights_.data();
    estimate.growths = scratch_.growths_.data();
    estimate.stride = stride_;
    estimate.weight_max = scratch_.weight_max_.data();
    kernels_.estimate_blocks(estimate);
  }

  // Marks what the rows choose together, then takes the blocks that nobody chose into their sums.
  // False, and no sum changed, where all blocks are to be read.
  bool Choose() {
    for (int r = 0; r < group_.row_count; ++r) {
      if (!WeighRow(r)) return false;
    }
    ChooseTogether();
    if (TooManyChosen()) return false;
    bool more = false;
    for (int r = 0; r < group_.row_count; ++r) more |= ChooseForRow(r);
    if (more && TooManyChosen()) return false;
    for (int r = 0; r < group_.row_count; ++r) {
      const auto row = static_cast<size_t>(r);
      const BlockTotals left = more ? Drop(r) : scratch_.left_[row];
      group_.residuals[r] = left.error_sum / scratch_.totals_[row];
      scratch_.totals_[row] = left.weight_sum;
    }
    const float residual = *std::max_element(group_.residuals, group_.residuals + group_.row_count);
    if (residual > settings_.residual_max) {
      std::fill_n(group_.residuals, group_.row_count, 0.0F);
      return false;
    }
    AddFarPart();
    return true;
  }

  bool TooManyChosen() const {
    int chosen = 0;
    for (int p = 0; p < panel_count_; ++p) {
      chosen += std::popcount(scratch_.chosen_[static_cast<size_t>(p)]);
    }
    return static_cast<float>(chosen) > kChosenPartMax * static_cast<float>(stride_);
  }

  // False where the row has no finite estimate (a value that float16 can't hold, or no number):
  // then all is read.
  bool WeighRow(int r) {
    const auto row = static_cast<size_t>(r);
    const SoftmaxState& state = group_.states[r];
    const float max = std::max(state.max, scratch_.weight_max_[row]);
    if (!(std::fabs(max) < std::numeric_limits<float>::infinity())) return false;
    const BlockTotals totals = kernels_.weigh_blocks(
        {Weights(r), Growths(r), panel_count_, max, settings_.chosen_blocks_min});
    const float factor = scalar::Exp2(state.max - max);
    const float total = std::fma(state.sum, factor, totals.weight_sum);
    if (!(total < std::numeric_limits<float>::infinity()) ||
        !(totals.error_sum < std::numeric_limits<float>::infinity())) {
      return false;
    }
    scratch_.weight_max_[row] = max;
    scratch_.factors_[row] = factor;
    scratch_.totals_[row] = total;
    scratch_.error_factors_[row] = 1 / (settings_.epsilon * total);
    scratch_.error_floors_[row] = totals.error_floor;
    return true;
  }

  // What is good for all rows is chosen first: a list that each of them begins would be longer.
  void ChooseTogether() {
    const BlockTotals joined = kernels_.join_errors(
        {Growths(0), stride_, group_.row_count, panel_count_, scratch_.error_factors_.data(),
         scratch_.error_floors_.data(), scratch_.joined_.data(), scratch_.chosen_.data()});
    const float budget =
        group_.row_count == 1 ? 1.0F : kTogetherPart * static_cast<float>(group_.row_count);
    kernels_.choose_blocks({scratch_.joined_.data(), panel_count_, joined.error_sum,
                            joined.error_max, budget, &level_guess_, scratch_.chosen_.data()});
  }

  BlockTotals Drop(int r) {
    return kernels_.drop_blocks({Weights(r), Growths(r), scratch_.chosen_.data(), panel_count_});
  }

  // Adds what the row misses; false: nothing.
  bool ChooseForRow(int r) {
    const auto row = static_cast<size_t>(r);
    const BlockTotals left = Drop(r);
    scratch_.left_[row] = left;
    const float budget = settings_.epsilon * scratch_.totals_[row];
    if (left.error_sum <= budget) return false;
    kernels_.choose_blocks({Growths(r), panel_count_, left.error_sum, left.error_max, budget,
                            &level_guess_, scratch_.chosen_.data()});
    return true;
  }

  void AddFarPart() {
    for (int s = 0; s < group_.segment_count; ++s) {
      scratch_.means_[static_cast<size_t>(s)] = group_.segments[s] + offsets_.means;
    }
    BlockMeans means{};
    means.weights = scratch_.weights_.data();
    means.stride = stride_;
    means.row_count = group_.row_count;
    means.means = scratch_.means_.data();
    means.segment_count = group_.segment_count;
    means.segment_blocks = shape_.blocks();
    means.value_width = shape_.value_width;
    means.factors = scratch_.factors_.data();
    means.sums = group_.sums;
    kernels_.add_block_means(means);
    for (int r = 0; r < group_.row_count; ++r) {
      const auto row = static_cast<size_t>(r);
      SoftmaxState& state = group_.states[r];
      state.sum = std::fma(state.sum, scratch_.factors_[row], scratch_.totals_[row]);
      state.max = scratch_.weight_max_[row];
    }
  }

  // Returns how many blocks those are.
  int AttendChosen() {
    const int block_panels = std::max(1, shape_.block_keys / kKvPanelKeys);
    int chosen = 0;
    int count = 0;
    for (int p = 0; p < panel_count_; ++p) {
      const std::byte* segment = group_.segments[p / shape_.panels()];
      uint32_t bits = scratch_.chosen_[static_cast<size_t>(p)];
      for (; bits != 0; bits &= bits - 1, ++chosen) {
        const int block = p % shape_.panels() * kPanelBlocks + std::countr_zero(bits);
        const int key = block * shape_.block_keys;
        REM_CHECK(key % kKvPanelKeys == 0, "chosen blocks are whole panels of keys");
        for (int i = 0; i < block_panels; ++i) {
          AddPanel(segment + offsets_.keys, segment + offsets_.values, key / kKvPanelKeys + i,
                   count++);
        }
      }
    }
    AttendPanels(shape_.type, count);
    return chosen;
  }

  const KernelTable& kernels_;
  const SealedShape& shape_;
  const SealedOffsets offsets_;
  const SparseSettings& settings_;
  const SparseGroup& group_;
  SparseScratch& scratch_;
  const int panel_count_;
  const int64_t stride_;  // floats of a row's weights: its far blocks
  int32_t level_guess_ = -8;
};

SparseCounts AttendSparse(const KernelTable& kernels, const SealedShape& shape,
                          const SparseSettings& settings, const SparseGroup& group,
                          SparseScratch& scratch) {
  REM_CHECK(settings.epsilon > 0, "no error left is the exact path");
  return SparseGroupRun(kernels, shape, settings, group, scratch).Run();
}

}  // namespace remontoir
