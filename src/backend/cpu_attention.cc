// Work items of attention, and how their partials come together.
#include "backend/cpu_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr int32_t kBlocksPerPartial = kKvPartialKeys / kKvPageTokens;
// Fewer items than this for each worker, and long lists are split.
constexpr int32_t kItemsPerWorker = 8;

class AttentionStep final : public Step {
 public:
  AttentionStep(const RoundState& round, const AttentionOp& op, const AttentionSetup& setup)
      : round_(round),
        op_(op),
        setup_(setup),
        shape_(setup.layout->layer(op.layer)),
        heads_per_kv_(op.heads / shape_.kv_heads),
        partial_kernel_(round.kernels->attention_partial[static_cast<size_t>(shape_.type)]) {}

  int32_t QuantiseOutputToo() override {
    quantise_ = shape_.value_width % kActivationBlock == 0;
    return quantise_ ? kAllRows : 0;
  }

  int32_t Begin() override {
    FillBatch();
    const WindowPlan& plan = *setup_.plan;
    items_ = plan.schedule().group_count() * shape_.kv_heads;
    const int64_t split_rows = plan.slot(plan.partial_count()) * op_.heads;
    split_ = items_ < kItemsPerWorker * round_.workers &&
             plan.partial_count() > plan.schedule().group_count() &&
             split_rows <= setup_.scratch->split_states_max() &&
             split_rows * shape_.value_width <= setup_.scratch->split_sums_max();
    return split_ ? plan.partial_count() * shape_.kv_heads : items_;
  }

  void RunTile(int32_t tile, int32_t worker) override {
    if (split_) {
      RunSplitPartial(tile / shape_.kv_heads, tile % shape_.kv_heads, worker);
    } else {
      RunItem(tile / shape_.kv_heads, tile % shape_.kv_heads, worker);
    }
  }

  int32_t merge_tiles() const { return split_ ? items_ : 0; }
  void MergeItem(int32_t item, int32_t worker);

 private:
  void FillBatch();
  int FillRows(int32_t group, int32_t kv_head, std::vector<AttentionRow>* rows) const;
  const std::byte* FirstKeys(int32_t partial, int32_t kv_head) const;
  const std::byte* KeysOfItem(int32_t item) const;
  const std::byte* KeysOfSplitPartial(int32_t tile) const;
  // `keys_after`: what this worker will probably read next.
  void RunPartial(int32_t partial, int32_t kv_head, const AttentionRow* rows, int row_count,
                  const std::byte* keys_after, SoftmaxState* states, float* sums) const;
  void RunItem(int32_t group, int32_t kv_head, int32_t worker);
  void RunSplitPartial(int32_t partial, int32_t kv_head, int32_t worker);
  int64_t SplitRow(int32_t partial, int32_t kv_head) const;
  void Merge(int row_count, const SoftmaxState* partial_states, const float* partial_sums,
             SoftmaxState* states, float* sums) const;
  void Finish(int32_t group, int32_t kv_head, const SoftmaxState* states, const float* sums) const;

  const RoundState& round_;
  const AttentionOp op_;
  const AttentionSetup setup_;
  const KvLayerShape shape_;
  const int32_t heads_per_kv_;
  void (*const partial_kernel_)(const AttentionPartial&);
  AttentionBatch batch_;
  int32_t items_ = 0;
  bool split_ = false;
  bool quantise_ = false;
};

class AttentionMergeStep final : public Step {
 public:
  explicit AttentionMergeStep(AttentionStep& attention) : attention_(attention) {}
  int32_t Begin() override { return attention_.merge_tiles(); }
  void RunTile(int32_t tile, int32_t worker) override { attention_.MergeItem(tile, worker); }

 private:
  AttentionStep& attention_;
};

void AttentionStep::FillBatch() {
  const auto rows = static_cast<size_t>(round_.Rows(RowSpace::kTokens));
  batch_.queries = {setup_.queries->values, rows * static_cast<size_t>(setup_.queries->width)};
  batch_.out = {setup_.out->values, rows * static_cast<size_t>(setup_.out->width)};
  batch_.layer = op_.layer;
  batch_.heads = op_.heads;
  batch_.page_table = round_.inputs.page_table;
  batch_.page_table_begin = round_.inputs.page_table_begin;
  batch_.cu_seqlens_q = round_.inputs.cu_seqlens_q;
  batch_.cu_seqlens_k = round_.inputs.cu_seqlens_k;
  batch_.schedule = &setup_.plan->schedule();
  batch_.scale = op_.scale;
  batch_.soft_cap = op_.soft_cap;
  if (setup_.sink_logits != nullptr) {
    batch_.sink_logits = {setup_.sink_logits, static_cast<size_t>(op_.heads)};
  }
  batch_.window = op_.window;
  batch_.temperature_length = op_.temperature_length;
}

// What scores of a query at this position are multiplied by.
float ScoreFactor(int32_t position, int32_t temperature_length) {
  if (temperature_length == 0 || position <= temperature_length) return 1;
  return static_cast<float>(std::log2(static_cast<double>(position)) /
                            std::log2(static_cast<double>(temperature_length)));
}

// The group's rows times the query heads that share the KV head.
int AttentionStep::FillRows(int32_t group, int32_t kv_head, std::vector<AttentionRow>* rows) const {
  const TileSchedule& schedule = *batch_.schedule;
  const auto g = static_cast<size_t>(group);
  const auto s = static_cast<size_t>(schedule.group_sequence[g]);
  const int32_t first_row = schedule.group_first_row[g];
  const auto keys = static_cast<int32_t>(batch_.cu_seqlens_k[s + 1] - batch_.cu_seqlens_k[s]);
  const int32_t first_position = keys - (batch_.cu_seqlens_q[s + 1] - first_row);
  int count = 0;
  for (int32_t r = 0; r < schedule.group_rows[g]; ++r) {
    const KeyRange visible = VisibleKeys(first_position + r, batch_.window);
    const float score_factor = ScoreFactor(first_position + r, batch_.temperature_length);
    const float* query =
        batch_.queries.data() +
        (int64_t{first_row + r} * batch_.heads + kv_head * heads_per_kv_) * shape_.key_width;
    for (int32_t h = 0; h < heads_per_kv_; ++h, query += shape_.key_width) {
      (*rows)[static_cast<size_t>(count++)] = {query, visible.begin, visible.end, score_factor};
    }
  }
  return count;
}

// The keys with which a partial begins.
const std::byte* AttentionStep::FirstKeys(int32_t partial, int32_t kv_head) const {
  const auto group = static_cast<size_t>(setup_.plan->group_of(partial));
  const auto sequence = static_cast<size_t>(batch_.schedule->group_sequence[group]);
  const auto listed = static_cast<size_t>(setup_.plan->partial(partial).list_begin);
  const auto page = static_cast<size_t>(batch_.page_table_begin[sequence]) +
                    static_cast<size_t>(batch_.schedule->block[listed]);
  return round_.kv_pages.Page(batch_.page_table[page]) +
         setup_.layout->key_offset(batch_.layer, kv_head);
}

const std::byte* AttentionStep::KeysOfItem(int32_t item) const {
  if (item >= items_) return nullptr;
  const int32_t partial = setup_.plan->partial_begin(item / shape_.kv_heads);
  return FirstKeys(partial, item % shape_.kv_heads);
}

const std::byte* AttentionStep::KeysOfSplitPartial(int32_t tile) const {
  if (tile >= setup_.plan->partial_count() * shape_.kv_heads) return nullptr;
  return FirstKeys(tile / shape_.kv_heads, tile % shape_.kv_heads);
}

void AttentionStep::RunPartial(int32_t partial, int32_t kv_head, const AttentionRow* rows,
                               int row_count, const std::byte* keys_after, SoftmaxState* states,
                               float* sums) const {
  const WindowPlan::Partial& run = setup_.plan->partial(partial);
  const auto group = static_cast<size_t>(setup_.plan->group_of(partial));
  const int32_t sequence = batch_.schedule->group_sequence[group];
  const KvPageId* pages =
      batch_.page_table.data() + batch_.page_table_begin[static_cast<size_t>(sequence)];
  const int64_t key_offset = setup_.layout->key_offset(batch_.layer, kv_head);
  const int64_t value_offset = setup_.layout->value_offset(batch_.layer, kv_head);
  const int32_t* listed = batch_.schedule->block.data() + run.list_begin;
  std::array<KeyBlock, kBlocksPerPartial> blocks;
  for (int32_t i = 0; i < run.blocks; ++i) {
    const int32_t block = listed[i];
    const std::byte* page = round_.kv_pages.Page(pages[block]);
    blocks[static_cast<size_t>(i)] = {page + key_offset, page + value_offset, block};
  }
  AttentionPartial work{};
  work.rows = rows;
  work.row_count = row_count;
  work.blocks = blocks.data();
  work.block_count = run.blocks;
  work.keys_after = keys_after;
  work.key_width = shape_.key_width;
  work.value_width = shape_.value_width;
  work.scale = batch_.scale;
  work.soft_cap = batch_.soft_cap;
  work.states = states;
  work.sums = sums;
  partial_kernel_(work);
}

void AttentionStep::RunItem(int32_t group, int32_t kv_head, int32_t worker) {
  AttentionScratch::Worker& scratch = setup_.scratch->worker(worker);
  const int rows = FillRows(group, kv_head, &scratch.rows);
  const int32_t begin = setup_.plan->partial_begin(group);
  const int32_t end = setup_.plan->partial_begin(group + 1);
  // Workers take items in turns, about.
  const std::byte* next_item = KeysOfItem(group * shape_.kv_heads + kv_head + round_.workers);
  const auto keys_after = [&](int32_t partial) {
    return partial + 1 < end ? FirstKeys(partial + 1, kv_head) : next_item;
  };
  RunPartial(begin, kv_head, scratch.rows.data(), rows, keys_after(begin), scratch.states.data(),
             scratch.sums.data());
  for (int32_t partial = begin + 1; partial < end; ++partial) {
    RunPartial(partial, kv_head, scratch.rows.data(), rows, keys_after(partial),
               scratch.partial_states.data(), scratch.partial_sums.data());
    Merge(rows, scratch.partial_states.data(), scratch.partial_sums.data(), scratch.states.data(),
          scratch.sums.data());
  }
  Finish(group, kv_head, scratch.states.data(), scratch.sums.data());
}

// First row of a split partial's results: [slots][heads], a KV head's rows side by side.
int64_t AttentionStep::SplitRow(int32_t partial, int32_t kv_head) const {
  const WindowPlan& plan = *setup_.plan;
  const int64_t rows = plan.slot(partial + 1) - plan.slot(partial);
  return plan.slot(partial) * op_.heads + kv_head * rows * heads_per_kv_;
}

void AttentionStep::RunSplitPartial(int32_t partial, int32_t kv_head, int32_t worker) {
  AttentionScratch::Worker& scratch = setup_.scratch->worker(worker);
  const int32_t group = setup_.plan->group_of(partial);
  const int rows = FillRows(group, kv_head, &scratch.rows);
  const int64_t first = SplitRow(partial, kv_head);
  const std::byte* next = KeysOfSplitPartial(partial * shape_.kv_heads + kv_head + round_.workers);
  RunPartial(partial, kv_head, scratch.rows.data(), rows, next,
             setup_.scratch->split_states() + first,
             setup_.scratch->split_sums() + first * shape_.value_width);
}

void AttentionStep::MergeItem(int32_t item, int32_t) {
  const int32_t group = item / shape_.kv_heads;
  const int32_t kv_head = item % shape_.kv_heads;
  const int32_t begin = setup_.plan->partial_begin(group);
  const int32_t end = setup_.plan->partial_begin(group + 1);
  const int rows = batch_.schedule->group_rows[static_cast<size_t>(group)] * heads_per_kv_;
  // The first partial's memory takes the others in.
  SoftmaxState* states = setup_.scratch->split_states() + SplitRow(begin, kv_head);
  float* sums = setup_.scratch->split_sums() + SplitRow(begin, kv_head) * shape_.value_width;
  for (int32_t partial = begin + 1; partial < end; ++partial) {
    const int64_t first = SplitRow(partial, kv_head);
    Merge(rows, setup_.scratch->split_states() + first,
          setup_.scratch->split_sums() + first * shape_.value_width, states, sums);
  }
  Finish(group, kv_head, states, sums);
}

// A row's result must not depend on whether its group has earlier partials in which only other rows
// see keys: so an empty state takes the next partial as it is.
void AttentionStep::Merge(int row_count, const SoftmaxState* partial_states,
                          const float* partial_sums, SoftmaxState* states, float* sums) const {
  const int64_t width = shape_.value_width;
  for (int r = 0; r < row_count; ++r) {
    const float* partial_sum = partial_sums + r * width;
    float* sum = sums + r * width;
    if (std::isinf(states[r].max) && states[r].max < 0) {
      states[r] = partial_states[r];
      std::copy_n(partial_sum, width, sum);
    } else {
      round_.kernels->merge_partial(partial_states[r], partial_sum, shape_.value_width, &states[r],
                                    sum);
    }
  }
}

void AttentionStep::Finish(int32_t group, int32_t kv_head, const SoftmaxState* states,
                           const float* sums) const {
  const int64_t width = shape_.value_width;
  const auto g = static_cast<size_t>(group);
  for (int32_t r = 0; r < batch_.schedule->group_rows[g]; ++r) {
    const int32_t row = batch_.schedule->group_first_row[g] + r;
    for (int32_t h = 0; h < heads_per_kv_; ++h) {
      const int64_t head = kv_head * heads_per_kv_ + h;
      const int64_t i = r * heads_per_kv_ + h;
      const float* sink = batch_.sink_logits.empty() ? nullptr : batch_.sink_logits.data() + head;
      float* out = setup_.out->Row(row) + head * width;
      round_.kernels->finish_row(states[i], sums + i * width, shape_.value_width, sink, out);
      if (quantise_) QuantiseValues(*round_.kernels, *setup_.out, row, head * width, width);
    }
  }
}

}  // namespace

WindowPlan::WindowPlan(int32_t window, const RoundLimits& limits)
    : window_(window),
      builder_(limits.rows_max, limits.sequences_max, limits.context_max, kKvPageTokens) {
  const size_t groups = static_cast<size_t>(limits.rows_max) / kRowGroupPositions +
                        2 * static_cast<size_t>(limits.sequences_max);
  const size_t partials = groups * (static_cast<size_t>(limits.context_max) / kKvPartialKeys + 2);
  partial_begin_.reserve(groups + 1);
  partials_.reserve(partials);
  group_of_.reserve(partials);
  slot_.reserve(partials + 1);
}

void WindowPlan::Build(const RoundInputs& inputs) {
  schedule_ = &builder_.Build(inputs.cu_seqlens_q, inputs.cu_seqlens_k, window_);
  CutIntoPartials();
}

void WindowPlan::CutIntoPartials() {
  partial_begin_.assign(1, 0);
  partials_.clear();
  group_of_.clear();
  slot_.assign(1, 0);
  for (int32_t group = 0; group < schedule_->group_count(); ++group) {
    const auto g = static_cast<size_t>(group);
    int32_t previous = -1;
    for (int32_t i = schedule_->list_begin[g]; i < schedule_->list_begin[g + 1]; ++i) {
      const int32_t number = schedule_->block[static_cast<size_t>(i)] / kBlocksPerPartial;
      if (number != previous) {
        REM_CHECK(partials_.size() < partials_.capacity(), "more partials than were planned");
        partials_.push_back({i, 0});
        group_of_.push_back(group);
        slot_.push_back(slot_.back() + schedule_->group_rows[g]);
        previous = number;
      }
      ++partials_.back().blocks;
    }
    partial_begin_.push_back(partial_count());
  }
}

void AttentionScratch::ReserveWorkers(int32_t workers, int64_t rows, int64_t value_width) {
  workers_.resize(std::max(workers_.size(), static_cast<size_t>(workers)));
  for (Worker& worker : workers_) {
    const auto grow = [](auto* values, int64_t count) {
      values->resize(std::max(values->size(), static_cast<size_t>(count)));
    };
    grow(&worker.rows, rows);
    grow(&worker.states, rows);
    grow(&worker.partial_states, rows);
    grow(&worker.sums, rows * value_width);
    grow(&worker.partial_sums, rows * value_width);
  }
}

void AttentionScratch::ReserveSplit(int64_t slots, int64_t heads, int64_t value_width) {
  const auto states = static_cast<size_t>(slots * heads);
  split_states_.resize(std::max(split_states_.size(), states));
  split_sums_.resize(std::max(split_sums_.size(), states * static_cast<size_t>(value_width)));
}

int64_t AttentionScratch::bytes() const {
  int64_t bytes = split_states_max() * static_cast<int64_t>(sizeof(SoftmaxState)) +
                  split_sums_max() * static_cast<int64_t>(sizeof(float));
  for (const Worker& worker : workers_) {
    bytes += static_cast<int64_t>(worker.rows.size() * sizeof(AttentionRow) +
                                  2 * worker.states.size() * sizeof(SoftmaxState) +
                                  2 * worker.sums.size() * sizeof(float));
  }
  return bytes;
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
  auto merge = std::make_unique<AttentionMergeStep>(*attention);
  std::vector<std::unique_ptr<Step>> steps;
  steps.push_back(std::move(attention));
  steps.push_back(std::move(merge));
  return steps;
}

}  // namespace remontoir
