// Rows, keys and partial results of the items.
#include "backend/attention_items.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr int32_t kPagesPerPartial = kKvPartialKeys / kKvPageTokens;
constexpr int32_t kPanelsPerPartial = kKvPartialKeys / kKvPanelKeys;

float LogOfSum(const SoftmaxState& state) {
  if (state.sum == 0) return -std::numeric_limits<float>::infinity();
  const double log2 = static_cast<double>(state.max) + std::log2(static_cast<double>(state.sum));
  return static_cast<float>(log2 * std::numbers::ln2);
}

// The partial to which the block of a rank belongs.
int32_t PartialOf(int32_t rank, int32_t keys_per_block) {
  return static_cast<int32_t>(int64_t{rank} * keys_per_block / kKvPartialKeys);
}

// Whether the list of b is that of a, or that and more.
bool Continues(const TileSchedule& schedule, int32_t a, int32_t b) {
  const auto i = static_cast<size_t>(a);
  const auto j = static_cast<size_t>(b);
  const std::span<const int32_t> list = schedule.list(a);
  const std::span<const int32_t> other = schedule.list(b);
  return schedule.group_sequence[i] == schedule.group_sequence[j] &&
         schedule.group_head[i] == schedule.group_head[j] &&
         schedule.list_rank[i] == schedule.list_rank[j] && list.size() <= other.size() &&
         std::equal(list.begin(), list.end(), other.begin());
}

// Asks for the memory of a row, which would be waited for row by row.
template <bool kWritten>
void AskFor(const float* row, int64_t width) {
  constexpr int64_t kLineFloats = 16;
  for (int64_t d = 0; d < width; d += kLineFloats) __builtin_prefetch(row + d, kWritten ? 1 : 0);
}

// What scores of a query at this position are multiplied by.
float ScoreFactor(int32_t position, int32_t temperature_length) {
  if (temperature_length == 0 || position <= temperature_length) return 1;
  return static_cast<float>(std::log2(static_cast<double>(position)) /
                            std::log2(static_cast<double>(temperature_length)));
}

}  // namespace

void PartialPlan::Reserve(size_t groups, size_t partials) {
  partial_begin_.reserve(groups + 1);
  bundle_begin_.reserve(groups + 1);
  partials_.reserve(partials);
  slot_.reserve(partials + 1);
}

size_t PartialPlan::Count(const TileSchedule& schedule) {
  size_t count = 0;
  for (int32_t group = 0; group < schedule.group_count(); ++group) {
    const auto blocks = static_cast<int32_t>(schedule.list(group).size());
    if (blocks == 0) continue;
    const int32_t rank = schedule.list_rank[static_cast<size_t>(group)];
    const int32_t last = PartialOf(rank + blocks - 1, schedule.keys_per_block);
    count += static_cast<size_t>(last - PartialOf(rank, schedule.keys_per_block)) + 1;
  }
  return count;
}

void PartialPlan::Cut(const TileSchedule& schedule) {
  REM_CHECK(kKvPartialKeys % schedule.keys_per_block == 0, "a partial has whole blocks");
  partial_begin_.assign(1, 0);
  bundle_begin_.assign(1, 0);
  partials_.clear();
  slot_.assign(1, 0);
  for (int32_t group = 0; group < schedule.group_count(); ++group) {
    const auto g = static_cast<size_t>(group);
    const int32_t first = schedule.list_begin[g];
    const int32_t end = schedule.list_begin[g + 1];
    for (int32_t i = first; i < end;) {
      const int32_t rank = schedule.list_rank[g] + i - first;
      const int32_t number = PartialOf(rank, schedule.keys_per_block);
      const int64_t next_rank = (int64_t{number} + 1) * kKvPartialKeys / schedule.keys_per_block;
      const auto blocks = static_cast<int32_t>(std::min<int64_t>(end - i, next_rank - rank));
      REM_CHECK(partials_.size() < partials_.capacity(), "more partials than were planned");
      partials_.push_back({i, blocks, rank, group});
      slot_.push_back(slot_.back() + schedule.group_rows[g]);
      i += blocks;
    }
    REM_CHECK(partial_begin_.size() < partial_begin_.capacity(), "more groups than were planned");
    partial_begin_.push_back(partial_count());
    if (group > 0 &&
        (group - bundle_begin_.back() == kBundleGroups || !Continues(schedule, group - 1, group))) {
      bundle_begin_.push_back(group);
    }
  }
  if (schedule.group_count() > 0) bundle_begin_.push_back(schedule.group_count());
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

void AttentionItems::Begin(const AttentionBatch& batch, const PartialPlan& plan,
                           AttentionScratch* scratch) {
  batch_ = batch;
  plan_ = &plan;
  scratch_ = scratch;
  shape_ = batch.layout->layer(batch.layer);
  partial_kernel_ = kernels_.attention_partial[static_cast<size_t>(shape_.type)];
  const int32_t groups = batch.schedule->group_count();
  items_ = groups * items_per_group();
  bundled_ = plan.bundle_count() * items_per_group() >= kItemsPerWorker * workers_;
  split_tiles_ = plan.partial_count() * items_per_group();
  split_heads_ = items_ == 0 ? 0 : ItemOf(0, 0).heads * items_per_group();
  const int64_t split_rows = plan.slot(plan.partial_count()) * split_heads_;
  split_ = items_ < kItemsPerWorker * workers_ && plan.partial_count() > groups &&
           split_rows <= scratch->split_states_max() &&
           split_rows * shape_.value_width <= scratch->split_sums_max();
  if (bundled_) items_ = plan.bundle_count() * items_per_group();
}

int32_t AttentionItems::RowsOf(const Item& item) const {
  const auto groups = batch_.schedule->group_rows.subspan(static_cast<size_t>(item.group),
                                                          static_cast<size_t>(item.groups));
  return std::accumulate(groups.begin(), groups.end(), 0);
}

AttentionItems::Item AttentionItems::ItemOf(int32_t group, int32_t index) const {
  const int32_t heads_per_kv = batch_.heads / shape_.kv_heads;
  const int32_t lists = batch_.schedule->heads;
  const int32_t list_head = batch_.schedule->group_head[static_cast<size_t>(group)];
  if (lists == 1) return {group, 1, index, index * heads_per_kv, heads_per_kv};
  if (lists == shape_.kv_heads) {
    return {group, 1, list_head, list_head * heads_per_kv, heads_per_kv};
  }
  return {group, 1, list_head / heads_per_kv, list_head, 1};
}

AttentionItems::Item AttentionItems::ItemOfTile(int32_t tile) const {
  const int32_t parent = tile / items_per_group();
  const int32_t index = tile % items_per_group();
  if (!bundled_) return ItemOf(parent, index);
  Item item = ItemOf(plan_->bundle_begin(parent), index);
  item.groups = plan_->bundle_begin(parent + 1) - item.group;
  return item;
}

bool AttentionItems::OtherTakesAnyOf(const Item& item) const {
  for (int32_t group = item.group; group < item.group + item.groups; ++group) {
    if (other_ != nullptr && other_->Takes(group)) return true;
  }
  return false;
}

void AttentionItems::RunTile(int32_t tile, int32_t worker) {
  if (split_) {
    RunSplitPartial(tile / items_per_group(), tile % items_per_group(), tile, worker);
  } else {
    RunItem(ItemOfTile(tile), tile, worker);
  }
}

// The groups' rows times the item's query heads.
int AttentionItems::FillRows(const Item& item, std::vector<AttentionRow>* rows) const {
  const TileSchedule& schedule = *batch_.schedule;
  const auto s = static_cast<size_t>(schedule.group_sequence[static_cast<size_t>(item.group)]);
  const auto keys = static_cast<int32_t>(batch_.cu_seqlens_k[s + 1] - batch_.cu_seqlens_k[s]);
  const int32_t past = keys - batch_.cu_seqlens_q[s + 1];  // from row to position
  std::span<const int32_t> documents;
  if (!batch_.documents.empty()) {
    documents = batch_.documents.subspan(static_cast<size_t>(batch_.cu_seqlens_k[s]),
                                         static_cast<size_t>(keys));
  }
  int count = 0;
  for (int32_t group = item.group; group < item.group + item.groups; ++group) {
    const int32_t first_row = schedule.group_first_row[static_cast<size_t>(group)];
    const int32_t end_row = first_row + schedule.group_rows[static_cast<size_t>(group)];
    for (int32_t row = first_row; row < end_row; ++row) {
      const KeyRange visible =
          AlongList(schedule, group, VisibleKeys(past + row, batch_.window, documents));
      const float score_factor = ScoreFactor(past + row, batch_.temperature_length);
      const int64_t first_head = int64_t{row} * batch_.heads + item.first_head;
      const float* query = batch_.queries.data() + first_head * shape_.key_width;
      AskFor<false>(query, int64_t{item.heads} * shape_.key_width);
      AskFor<true>(batch_.out.data() + first_head * shape_.value_width,
                   int64_t{item.heads} * shape_.value_width);
      for (int32_t h = 0; h < item.heads; ++h, query += shape_.key_width) {
        (*rows)[static_cast<size_t>(count++)] = {query, visible.begin, visible.end, score_factor};
      }
    }
  }
  return count;
}

KeyPanel AttentionItems::HeadPages::Panel(int64_t number) const {
  const std::byte* at = memory.Page(table[number / kTilePanels]);
  const auto slot = static_cast<int32_t>(number % kTilePanels) * kKvPanelKeys;
  return {at + key_offset, at + value_offset, slot};
}

AttentionItems::HeadPages AttentionItems::PagesOf(const PartialPlan::Partial& run,
                                                  int32_t kv_head) const {
  const auto s =
      static_cast<size_t>(batch_.schedule->group_sequence[static_cast<size_t>(run.group)]);
  return {batch_.kv_pages, batch_.page_table.data() + batch_.page_table_begin[s],
          batch_.cu_seqlens_k[s + 1] - batch_.cu_seqlens_k[s],
          batch_.layout->key_offset(batch_.layer, kv_head),
          batch_.layout->value_offset(batch_.layer, kv_head)};
}

void AttentionItems::FirstTile(int32_t partial, int32_t kv_head, KeyTile* tile) const {
  const TileSchedule& schedule = *batch_.schedule;
  const PartialPlan::Partial& run = plan_->partial(partial);
  const HeadPages pages = PagesOf(run, kv_head);
  const int32_t panels_per_block = schedule.keys_per_block / kKvPanelKeys;
  const int32_t* listed = schedule.block.data() + run.list_begin;
  int64_t panel = 0;
  for (int32_t i = 0; i < kTilePanels; ++i) {
    const int32_t block = std::min(i / panels_per_block, run.blocks - 1);
    const int64_t number = int64_t{listed[block]} * panels_per_block + i % panels_per_block;
    // Pages that the sequence has; a list's first panel is there.
    if (number / kTilePanels * kKvPageTokens < pages.keys) panel = number;
    (*tile)[static_cast<size_t>(i)] = pages.Panel(panel);
  }
}

bool AttentionItems::FirstTileOfItem(int32_t index, KeyTile* tile) const {
  if (index >= items_) return false;
  const Item item = ItemOfTile(index);
  const int32_t partial = PartialBegin(item);
  if (partial == PartialEnd(item)) return false;
  FirstTile(partial, item.kv_head, tile);
  return true;
}

bool AttentionItems::FirstTileOfSplitPartial(int32_t index, KeyTile* tile) const {
  if (index >= split_tiles_) return false;
  const int32_t partial = index / items_per_group();
  const Item item = ItemOf(plan_->partial(partial).group, index % items_per_group());
  FirstTile(partial, item.kv_head, tile);
  return true;
}

void AttentionItems::RunPartial(int32_t partial, int32_t kv_head, AttentionPartial work) const {
  const PartialPlan::Partial& run = plan_->partial(partial);
  const HeadPages pages = PagesOf(run, kv_head);
  work.key_width = shape_.key_width;
  work.value_width = shape_.value_width;
  work.scale = batch_.scale;
  work.soft_cap = batch_.soft_cap;
  if (batch_.schedule->keys_per_block >= kKvPageTokens) {
    RunPages(run, pages, work);
  } else {
    RunPanels(run, pages, work);
  }
}

// Blocks of one or more pages.
void AttentionItems::RunPages(const PartialPlan::Partial& run, const HeadPages& pages,
                              AttentionPartial work) const {
  const TileSchedule& schedule = *batch_.schedule;
  const int32_t pages_per_block = schedule.keys_per_block / kKvPageTokens;
  const int32_t* listed = schedule.block.data() + run.list_begin;
  std::array<KeyBlock, kPagesPerPartial> blocks;
  int32_t count = 0;
  for (int32_t i = 0; i < run.blocks; ++i) {
    for (int32_t p = 0; p < pages_per_block; ++p) {
      const int64_t page = int64_t{listed[i]} * pages_per_block + p;
      if (page * kKvPageTokens >= pages.keys) break;  // the rest of the last block
      const KeyPanel first = pages.Panel(page * kTilePanels);
      blocks[static_cast<size_t>(count++)] = {first.keys, first.values,
                                              (run.rank + i) * pages_per_block + p};
    }
  }
  work.blocks = blocks.data();
  work.block_count = count;
  partial_kernel_(work);
}

// Blocks of one or more panels, as many together as a page has.
void AttentionItems::RunPanels(const PartialPlan::Partial& run, const HeadPages& pages,
                               AttentionPartial work) const {
  const TileSchedule& schedule = *batch_.schedule;
  const int32_t panels_per_block = schedule.keys_per_block / kKvPanelKeys;
  const int32_t* listed = schedule.block.data() + run.list_begin;
  std::array<KeyPanel, kPanelsPerPartial> panels;
  // Tiles begin at multiples of four panels of the ranks, whatever the group sees of the first one.
  const int32_t first_panel = run.rank * panels_per_block;
  int32_t count = first_panel % kTilePanels;
  std::fill_n(panels.begin(), count, pages.Panel(int64_t{listed[0]} * panels_per_block));
  work.panel_begin = first_panel - count;
  for (int32_t i = 0; i < run.blocks; ++i) {
    for (int32_t p = 0; p < panels_per_block; ++p) {
      const int64_t number = int64_t{listed[i]} * panels_per_block + p;
      if (number * kKvPanelKeys >= pages.keys) break;  // the rest of the last block
      panels[static_cast<size_t>(count++)] = pages.Panel(number);
    }
  }
  work.panels = panels.data();
  work.panel_count = count;
  partial_kernel_(work);
}

void AttentionItems::FinishUnseen(const Item& item, int32_t worker) {
  AttentionScratch::Worker& scratch = scratch_->worker(worker);
  const int64_t rows = int64_t{RowsOf(item)} * item.heads;
  std::fill_n(scratch.states.begin(), rows, SoftmaxState{});
  std::fill_n(scratch.sums.begin(), rows * shape_.value_width, 0.0F);
  Finish(item, scratch.states.data(), scratch.sums.data());
}

void AttentionItems::RunItem(const Item& item, int32_t tile, int32_t worker) {
  const bool others = OtherTakesAnyOf(item);
  if (others && item.groups > 1) {
    Item one = item;
    one.groups = 1;
    for (; one.group < item.group + item.groups; ++one.group) RunItem(one, tile, worker);
    return;
  }
  AttentionScratch::Worker& scratch = scratch_->worker(worker);
  AttentionPartial work{};
  work.row_count = FillRows(item, &scratch.rows);
  work.rows = scratch.rows.data();
  if (others) {
    other_->Attend(item.group, item.kv_head, {work.rows, static_cast<size_t>(work.row_count)},
                   worker, scratch.states.data(), scratch.sums.data());
    return Finish(item, scratch.states.data(), scratch.sums.data());
  }
  const int32_t begin = PartialBegin(item);
  const int32_t end = PartialEnd(item);
  if (begin == end) return FinishUnseen(item, worker);
  for (int32_t partial = begin; partial < end; ++partial) {
    const bool first = partial == begin;
    work.states = first ? scratch.states.data() : scratch.partial_states.data();
    work.sums = first ? scratch.sums.data() : scratch.partial_sums.data();
    // Workers take items in turns, about.
    KeyTile after;
    bool known = true;
    if (partial + 1 < end) {
      FirstTile(partial + 1, item.kv_head, &after);
    } else {
      known = FirstTileOfItem(tile + workers_, &after);
    }
    work.after = known ? after.data() : nullptr;
    RunPartial(partial, item.kv_head, work);
    if (first) continue;
    Merge(work.row_count, work.states, work.sums, scratch.states.data(), scratch.sums.data());
  }
  Finish(item, scratch.states.data(), scratch.sums.data());
}

// First row of a split partial's results: [slots][heads], an item's rows side by side.
int64_t AttentionItems::SplitRow(int32_t partial, const Item& item) const {
  const int64_t rows = plan_->slot(partial + 1) - plan_->slot(partial);
  const int32_t before = batch_.schedule->heads == 1 ? item.first_head : 0;
  return plan_->slot(partial) * split_heads_ + before * rows;
}

void AttentionItems::RunSplitPartial(int32_t partial, int32_t index, int32_t tile, int32_t worker) {
  AttentionScratch::Worker& scratch = scratch_->worker(worker);
  const Item item = ItemOf(plan_->partial(partial).group, index);
  const bool others = OtherTakesAnyOf(item);
  // Such a group is the work of its first partial.
  if (others && partial != plan_->partial_begin(item.group)) return;
  const int64_t first = SplitRow(partial, item);
  AttentionPartial work{};
  work.row_count = FillRows(item, &scratch.rows);
  work.rows = scratch.rows.data();
  KeyTile after;
  work.after = FirstTileOfSplitPartial(tile + workers_, &after) ? after.data() : nullptr;
  work.states = scratch_->split_states() + first;
  work.sums = scratch_->split_sums() + first * shape_.value_width;
  if (others) {
    return other_->Attend(item.group, item.kv_head,
                          {work.rows, static_cast<size_t>(work.row_count)}, worker, work.states,
                          work.sums);
  }
  RunPartial(partial, item.kv_head, work);
}

void AttentionItems::MergeTile(int32_t tile, int32_t worker) {
  const Item item = ItemOf(tile / items_per_group(), tile % items_per_group());
  const int32_t begin = plan_->partial_begin(item.group);
  const int32_t end = plan_->partial_begin(item.group + 1);
  if (begin == end) return FinishUnseen(item, worker);
  const int rows = RowsOf(item) * item.heads;
  // The first partial's memory takes the others in.
  SoftmaxState* states = scratch_->split_states() + SplitRow(begin, item);
  float* sums = scratch_->split_sums() + SplitRow(begin, item) * shape_.value_width;
  const bool others = OtherTakesAnyOf(item);
  for (int32_t partial = begin + 1; partial < end && !others; ++partial) {
    const int64_t first = SplitRow(partial, item);
    Merge(rows, scratch_->split_states() + first,
          scratch_->split_sums() + first * shape_.value_width, states, sums);
  }
  Finish(item, states, sums);
}

// A row's result must not depend on whether its group has earlier partials in which only other rows
// see keys: so an empty state takes the next partial as it is.
void AttentionItems::Merge(int row_count, const SoftmaxState* partial_states,
                           const float* partial_sums, SoftmaxState* states, float* sums) const {
  const int64_t width = shape_.value_width;
  for (int r = 0; r < row_count; ++r) {
    const float* partial_sum = partial_sums + r * width;
    float* sum = sums + r * width;
    if (std::isinf(states[r].max) && states[r].max < 0) {
      states[r] = partial_states[r];
      std::copy_n(partial_sum, width, sum);
    } else {
      kernels_.merge_partial(partial_states[r], partial_sum, shape_.value_width, &states[r], sum);
    }
  }
}

void AttentionItems::Finish(const Item& item, const SoftmaxState* states, const float* sums) const {
  const int64_t width = shape_.value_width;
  int64_t i = 0;
  for (int32_t group = item.group; group < item.group + item.groups; ++group) {
    const auto g = static_cast<size_t>(group);
    const int64_t first_row = batch_.schedule->group_first_row[g];
    for (int64_t row = first_row; row < first_row + batch_.schedule->group_rows[g]; ++row) {
      FinishHeads(row, item, states + i, sums + i * width);
      i += item.heads;
    }
  }
}

void AttentionItems::FinishHeads(int64_t row, const Item& item, const SoftmaxState* states,
                                 const float* sums) const {
  const int64_t width = shape_.value_width;
  const int64_t head = item.first_head;
  const float* sinks = batch_.sink_logits.empty() ? nullptr : batch_.sink_logits.data() + head;
  float* out = batch_.out.data() + (row * batch_.heads + head) * width;
  kernels_.finish_rows(states, sums, item.heads, shape_.value_width, sinks, out);
  if (!batch_.lse.empty()) {
    float* lse = batch_.lse.data() + row * batch_.heads + head;
    std::transform(states, states + item.heads, lse, LogOfSum);
  }
  if (quantised_ != nullptr) {
    QuantiseValues(kernels_, *quantised_, row, head * width, item.heads * width);
  }
}

}  // namespace remontoir
