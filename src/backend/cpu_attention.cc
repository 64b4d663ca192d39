// Batches of a round's attention operations.
#include "backend/cpu_attention.h"

#include <algorithm>
#include <span>
#include <utility>

namespace remontoir {
namespace {

class AttentionStep final : public Step, private GroupAttention {
 public:
  AttentionStep(const RoundState& round, const AttentionOp& op, const AttentionSetup& setup)
      : round_(round), op_(op), setup_(setup), items_(*round.kernels, round.workers) {
    batch_.layer = op.layer;
    batch_.heads = op.heads;
    batch_.layout = setup.layout;
    batch_.scale = op.scale;
    batch_.soft_cap = op.soft_cap;
    batch_.window = op.window;
    batch_.temperature_length = op.temperature_length;
    if (setup.sink_logits != nullptr) {
      batch_.sink_logits = {setup.sink_logits, static_cast<size_t>(op.heads)};
    }
    if (setup.sparse != nullptr) items_.ShareWith(this);
  }

  int32_t QuantiseOutputToo() override {
    const int32_t width = setup_.layout->layer(batch_.layer).value_width;
    if (width % kActivationBlock != 0) return 0;
    items_.QuantiseTo(setup_.out);
    return kAllRows;
  }

  int32_t Begin() override {
    FillBatch();
    if (round_.attention_observer) round_.attention_observer(batch_);
    items_.Begin(batch_, setup_.plan->partials(), setup_.scratch);
    return items_.tiles();
  }
  void RunTile(int32_t tile, int32_t worker) override { items_.RunTile(tile, worker); }

  AttentionItems& items() { return items_; }

 private:
  void FillBatch();
  int32_t FirstPosition(size_t group) const;
  // The groups whose rows know far keys by their blocks.
  bool Takes(int32_t group) const override;
  void Attend(int32_t group, int32_t kv_head, std::span<const AttentionRow> rows, int32_t worker,
              SoftmaxState* states, float* sums) override;

  const RoundState& round_;
  const AttentionOp op_;
  const AttentionSetup setup_;
  AttentionBatch batch_;
  AttentionItems items_;
};

class AttentionMergeStep final : public Step {
 public:
  explicit AttentionMergeStep(AttentionItems& items) : items_(items) {}
  int32_t Begin() override { return items_.merge_tiles(); }
  void RunTile(int32_t tile, int32_t worker) override { items_.MergeTile(tile, worker); }

 private:
  AttentionItems& items_;
};

// What differs from round to round.
void AttentionStep::FillBatch() {
  const auto rows = static_cast<size_t>(round_.Rows(RowSpace::kTokens));
  batch_.queries = {setup_.queries->values, rows * static_cast<size_t>(setup_.queries->width)};
  batch_.out = {setup_.out->values, rows * static_cast<size_t>(setup_.out->width)};
  batch_.kv_pages = round_.kv_pages;
  batch_.page_table = round_.inputs.page_table;
  batch_.page_table_begin = round_.inputs.page_table_begin;
  batch_.cu_seqlens_q = round_.inputs.cu_seqlens_q;
  batch_.cu_seqlens_k = round_.inputs.cu_seqlens_k;
  batch_.schedule = &setup_.plan->schedule();
}

int32_t AttentionStep::FirstPosition(size_t group) const {
  const auto s = static_cast<size_t>(batch_.schedule->group_sequence[group]);
  const auto keys = static_cast<int32_t>(batch_.cu_seqlens_k[s + 1] - batch_.cu_seqlens_k[s]);
  return keys - (batch_.cu_seqlens_q[s + 1] - batch_.schedule->group_first_row[group]);
}

bool AttentionStep::Takes(int32_t group) const {
  const auto g = static_cast<size_t>(group);
  return IsSparseRow(round_, *setup_.sparse, batch_.schedule->group_sequence[g], FirstPosition(g));
}

void AttentionStep::Attend(int32_t group, int32_t kv_head, std::span<const AttentionRow> rows,
                           int32_t worker, SoftmaxState* states, float* sums) {
  const auto g = static_cast<size_t>(group);
  SparseGroupWork work{};
  work.sequence = batch_.schedule->group_sequence[g];
  work.first_position = FirstPosition(g);
  work.last_position = work.first_position + batch_.schedule->group_rows[g] - 1;
  work.kv_head = kv_head;
  work.rows = rows.data();
  work.row_count = static_cast<int>(rows.size());
  work.states = states;
  work.sums = sums;
  AttendSparseGroup(round_, *setup_.layout, op_, *setup_.sparse, work, worker);
}

}  // namespace

WindowPlan::WindowPlan(int32_t window, const RoundLimits& limits)
    : window_(window),
      builder_(limits.rows_max, limits.sequences_max, limits.context_max, kKvPageTokens) {
  const size_t groups = static_cast<size_t>(limits.rows_max) / kRowGroupPositions +
                        2 * static_cast<size_t>(limits.sequences_max);
  partials_.Reserve(groups,
                    groups * (static_cast<size_t>(limits.context_max) / kKvPartialKeys + 2));
}

void WindowPlan::Build(const RoundInputs& inputs) {
  schedule_ = &builder_.Build(inputs.cu_seqlens_q, inputs.cu_seqlens_k, window_);
  partials_.Cut(*schedule_);
}

int64_t SplitGroupsMax(int32_t workers, int32_t kv_heads, int32_t sequences_max) {
  // At least one group of a prefill: as many rows as eight single ones.
  const int64_t groups = std::min<int64_t>(kItemsPerWorker * workers / kv_heads + 1, sequences_max);
  return std::max<int64_t>(groups, kRowGroupPositions);
}

std::vector<std::unique_ptr<Step>> MakeAttentionSteps(const RoundState& round,
                                                      const AttentionOp& op,
                                                      const AttentionSetup& setup) {
  auto attention = std::make_unique<AttentionStep>(round, op, setup);
  auto merge = std::make_unique<AttentionMergeStep>(attention->items());
  std::vector<std::unique_ptr<Step>> steps;
  steps.push_back(std::move(attention));
  steps.push_back(std::move(merge));
  return steps;
}

}  // namespace remontoir
