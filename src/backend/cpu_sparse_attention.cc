// The way from a round's tables to the segments and pages that a row group reads.
#include "backend/cpu_sparse_attention.h"

#include <algorithm>
#include <array>
#include <variant>

#include "backend/sparse_layers.h"
#include "base/check.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

int32_t KeysOf(const RoundInputs& inputs, int32_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  return static_cast<int32_t>(inputs.cu_seqlens_k[s + 1] - inputs.cu_seqlens_k[s]);
}

// The sequence's sealed segments; null: it has none.
const SealedSegmentId* SegmentsOf(const RoundInputs& inputs, int32_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  if (inputs.sealed_table_begin.empty()) return nullptr;
  if (inputs.sealed_table_begin[s] == inputs.sealed_table_begin[s + 1]) return nullptr;
  return inputs.sealed_table.data() + inputs.sealed_table_begin[s];
}

// What a round seals of a sequence.
SealRange SealsOf(const RoundInputs& inputs, int32_t sequence, int32_t layers) {
  const auto s = static_cast<size_t>(sequence);
  if (!inputs.seals.empty()) return inputs.seals[s];
  const int32_t keys = KeysOf(inputs, sequence);
  const int32_t rows = inputs.cu_seqlens_q[s + 1] - inputs.cu_seqlens_q[s];
  return {SealsDue(keys - rows, layers), SealsDue(keys, layers)};
}

// Of these, the number of segments whose keys were there before the round: their seals come first.
int32_t SegmentsBefore(const RoundInputs& inputs, int32_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  const int32_t rows = inputs.cu_seqlens_q[s + 1] - inputs.cu_seqlens_q[s];
  return std::max(0, KeysOf(inputs, sequence) - rows - kAnchorKeys) / kSegmentKeys;
}

// Where one head's keys and values come from, and where they go.
void SealHead(const RoundState& round, const KvLayout& layout, SparseState& state, int32_t sequence,
              int32_t segment, int32_t layer, int32_t head, int32_t worker) {
  const KvPageId* pages = round.inputs.page_table.data() +
                          round.inputs.page_table_begin[static_cast<size_t>(sequence)] +
                          SegmentEnd(segment - 1) / kKvPageTokens;
  std::array<const std::byte*, kSegmentPages> keys;
  std::array<const std::byte*, kSegmentPages> values;
  for (size_t i = 0; i < kSegmentPages; ++i) {
    const std::byte* page = round.kv_pages.Page(pages[i]);
    keys[i] = page + layout.key_offset(layer, head);
    values[i] = page + layout.value_offset(layer, head);
  }
  const SealedSegmentId id = SegmentsOf(round.inputs, sequence)[segment];
  SealSegment(*round.kernels, state.sealed().shape(layer),
              {keys.data(), values.data(), layout.layer(layer).type}, state.worker(worker).seal,
              round.sealed.At(id) + state.sealed().head_offset(layer, head));
}

class LateSealStep final : public Step {
 public:
  LateSealStep(const RoundState& round, const KvLayout& layout, SparseState& state)
      : round_(round), layout_(layout), state_(state) {}

  int32_t Begin() override {
    int32_t tiles = 0;
    for (int32_t s = 0; s < Sequences(); ++s) {
      const SealRange late = LateOf(s);
      for (int32_t seal = late.begin; seal < late.end; ++seal) tiles += HeadsOf(seal);
    }
    return tiles;
  }

  void RunTile(int32_t tile, int32_t worker) override {
    for (int32_t s = 0; s < Sequences(); ++s) {
      const SealRange late = LateOf(s);
      for (int32_t seal = late.begin; seal < late.end; ++seal) {
        const int32_t heads = HeadsOf(seal);
        if (tile < heads) {
          return SealHead(round_, layout_, state_, s, seal / layers(), LayerOf(seal), tile, worker);
        }
        tile -= heads;
      }
    }
  }

 private:
  int32_t Sequences() const { return static_cast<int32_t>(round_.inputs.cu_seqlens_q.size()) - 1; }
  int32_t layers() const { return state_.sealed().sealed_layers(); }
  int32_t LayerOf(int32_t seal) const { return state_.sealed().sealed_layer(seal % layers()); }
  int32_t HeadsOf(int32_t seal) const { return layout_.layer(LayerOf(seal)).kv_heads; }

  SealRange LateOf(int32_t sequence) const {
    if (SegmentsOf(round_.inputs, sequence) == nullptr) return {};
    const SealRange seals = SealsOf(round_.inputs, sequence, layers());
    const int32_t before = SegmentsBefore(round_.inputs, sequence) * layers();
    return {seals.begin, std::max(seals.begin, std::min(seals.end, before))};
  }

  const RoundState& round_;
  const KvLayout& layout_;
  SparseState& state_;
};

class SealStep final : public Step {
 public:
  SealStep(const RoundState& round, const KvLayout& layout, int32_t layer, SparseState& state)
      : round_(round), layout_(layout), layer_(layer), state_(state) {}

  int32_t Begin() override {
    int32_t segments = 0;
    const auto sequences = static_cast<int32_t>(round_.inputs.cu_seqlens_q.size()) - 1;
    for (int32_t s = 0; s < sequences; ++s) segments += SegmentsNow(s).count();
    return segments * layout_.layer(layer_).kv_heads;
  }

  void RunTile(int32_t tile, int32_t worker) override {
    const int32_t heads = layout_.layer(layer_).kv_heads;
    int32_t number = tile / heads;
    for (int32_t s = 0;; ++s) {
      const SealRange segments = SegmentsNow(s);
      if (number < segments.count()) {
        return SealHead(round_, layout_, state_, s, segments.begin + number, layer_, tile % heads,
                        worker);
      }
      number -= segments.count();
    }
  }

 private:
  // Segments of which the layer's seal is among the first `seals`.
  int32_t SegmentsWithin(int32_t seals) const {
    const int32_t layers = state_.sealed().sealed_layers();
    return (seals - state_.sealed().seal_index(layer_) + layers - 1) / layers;
  }
  SealRange SegmentsNow(int32_t sequence) const {
    if (SegmentsOf(round_.inputs, sequence) == nullptr) return {};
    const SealRange seals = SealsOf(round_.inputs, sequence, state_.sealed().sealed_layers());
    const int32_t begin =
        std::max(SegmentsWithin(seals.begin), SegmentsBefore(round_.inputs, sequence));
    return {begin, std::max(begin, SegmentsWithin(seals.end))};
  }

  const RoundState& round_;
  const KvLayout& layout_;
  const int32_t layer_;
  SparseState& state_;
};

// The heads of one position share a list, as they share its reading; those of several positions
// have one each: together they choose half as much again.
void AttendHeads(const RoundState& round, const AttentionOp& op, SparseState& state,
                 const SparseGroupWork& work, SparseGroup group, int32_t worker) {
  SparseState::Worker& memory = state.worker(worker);
  const SealedShape& shape = state.sealed().shape(op.layer);
  const SparseSettings settings = {.epsilon = state.options().epsilon,
                                   .residual_max = state.options().residual_max};
  const auto attend = [&](int row_count) {
    group.row_count = row_count;
    group.residuals = memory.residuals.data();
    const SparseCounts counts =
        AttendSparse(*round.kernels, shape, settings, group, memory.attention);
    state.Add(work.sequence, counts,
              *std::max_element(group.residuals, group.residuals + row_count));
  };
  const int positions = work.last_position - work.first_position + 1;
  const int heads = work.row_count / positions;
  if (positions == 1) {
    group.rows = work.rows;
    group.states = work.states;
    group.sums = work.sums;
    return attend(work.row_count);
  }
  group.rows = memory.rows.data();
  group.states = memory.states.data();
  group.sums = memory.sums.data();
  const int64_t width = shape.value_width;
  for (int head = 0; head < heads; ++head) {
    for (int r = 0; r < positions; ++r) {
      memory.rows[static_cast<size_t>(r)] = work.rows[r * heads + head];
    }
    attend(positions);
    for (int r = 0; r < positions; ++r) {
      const int row = r * heads + head;
      work.states[row] = group.states[r];
      std::copy_n(group.sums + r * width, width, work.sums + row * width);
    }
  }
}

}  // namespace

SealedLayout SealedLayoutOf(const Program& program, const KvLayout& layout, int32_t block_keys) {
  std::vector<bool> sparse(static_cast<size_t>(layout.layer_count()));
  for (const Operation& operation : program.operations) {
    const auto* op = std::get_if<AttentionOp>(&operation);
    if (op != nullptr && op->layer >= 0 && op->layer < layout.layer_count()) {
      sparse[static_cast<size_t>(op->layer)] =
          MayBeSparse({.key_width = layout.layer(op->layer).key_width,
                       .window = op->window,
                       .soft_cap = op->soft_cap,
                       .sinks = op->sink_logits != kNoWeight,
                       .temperature = op->temperature_length != 0});
    }
  }
  return SealedLayout(layout, sparse, block_keys);
}

void SparseState::Prepare(const Program& program, const KvLayout& layout, const RoundLimits& limits,
                          int32_t workers) {
  options_ = limits.sparse;
  if (options_.engage_at == 0) return;
  REM_CHECK(options_.epsilon > 0, "no error left is the exact mode");
  sealed_ = SealedLayoutOf(program, layout, options_.block_keys);
  workers_.resize(static_cast<size_t>(workers));
  totals_ = std::make_unique<Totals[]>(static_cast<size_t>(limits.sequences_max));
  const int32_t segments = FarSegments(limits.context_max);
  for (const Operation& operation : program.operations) {
    const auto* op = std::get_if<AttentionOp>(&operation);
    if (op == nullptr || !sealed_.has(op->layer)) continue;
    const SealedShape& shape = sealed_.shape(op->layer);
    const int64_t heads = op->heads / layout.layer(op->layer).kv_heads;
    const int64_t rows = std::max<int64_t>(kRowGroupPositions, heads);
    for (Worker& worker : workers_) {
      worker.attention.Reserve(rows, shape, segments);
      worker.seal.Reserve(shape.key_width, shape.value_width);
      worker.segments.resize(static_cast<size_t>(segments));
      worker.local_blocks.resize(kLocalBlocksMax);
      worker.residuals.resize(std::max(worker.residuals.size(), static_cast<size_t>(rows)));
      worker.rows.resize(kRowGroupPositions);
      worker.states.resize(kRowGroupPositions);
      worker.sums.resize(std::max(worker.sums.size(), static_cast<size_t>(kRowGroupPositions) *
                                                          static_cast<size_t>(shape.value_width)));
    }
  }
}

int64_t SparseState::bytes() const {
  int64_t bytes = 0;
  for (const Worker& worker : workers_) {
    bytes += worker.attention.bytes() + worker.seal.bytes() +
             static_cast<int64_t>(worker.segments.size() * sizeof(void*) +
                                  worker.local_blocks.size() * sizeof(KeyBlock) +
                                  worker.rows.size() * sizeof(AttentionRow) +
                                  worker.states.size() * sizeof(SoftmaxState) +
                                  (worker.residuals.size() + worker.sums.size()) * sizeof(float));
  }
  return bytes;
}

void SparseState::Begin(int32_t sequences) {
  for (int32_t s = 0; s < sequences && totals_ != nullptr; ++s) {
    Totals& totals = totals_[static_cast<size_t>(s)];
    totals.far_blocks.store(0, std::memory_order_relaxed);
    totals.chosen_blocks.store(0, std::memory_order_relaxed);
    totals.residual_max.store(0, std::memory_order_relaxed);
  }
}

// Sums of whole numbers and a maximum: the same in any order.
void SparseState::Add(int32_t sequence, const SparseCounts& counts, float residual_max) {
  Totals& totals = totals_[static_cast<size_t>(sequence)];
  totals.far_blocks.fetch_add(counts.far_blocks, std::memory_order_relaxed);
  totals.chosen_blocks.fetch_add(counts.chosen_blocks, std::memory_order_relaxed);
  float before = totals.residual_max.load(std::memory_order_relaxed);
  while (before < residual_max && !totals.residual_max.compare_exchange_weak(
                                      before, residual_max, std::memory_order_relaxed)) {
  }
}

SparseReadings SparseState::ReadingsOf(int32_t sequence) const {
  if (totals_ == nullptr) return {};
  const Totals& totals = totals_[static_cast<size_t>(sequence)];
  return {totals.far_blocks.load(std::memory_order_relaxed),
          totals.chosen_blocks.load(std::memory_order_relaxed),
          totals.residual_max.load(std::memory_order_relaxed)};
}

bool IsSparseRow(const RoundState& round, const SparseState& state, int32_t sequence,
                 int32_t position) {
  return state.on() && position >= state.options().engage_at && FarSegments(position) > 0 &&
         SegmentsOf(round.inputs, sequence) != nullptr;
}

void AttendSparseGroup(const RoundState& round, const KvLayout& layout, const AttentionOp& op,
                       SparseState& state, const SparseGroupWork& work, int32_t worker) {
  SparseState::Worker& memory = state.worker(worker);
  const int32_t segments = FarSegments(work.first_position);
  const SealedSegmentId* ids = SegmentsOf(round.inputs, work.sequence);
  for (int32_t s = 0; s < segments; ++s) {
    memory.segments[static_cast<size_t>(s)] =
        round.sealed.At(ids[s]) + state.sealed().head_offset(op.layer, work.kv_head);
  }
  const KvPageId* pages = round.inputs.page_table.data() +
                          round.inputs.page_table_begin[static_cast<size_t>(work.sequence)];
  const int64_t key_offset = layout.key_offset(op.layer, work.kv_head);
  const int64_t value_offset = layout.value_offset(op.layer, work.kv_head);
  int count = 0;
  const auto add_block = [&](int32_t block) {
    const std::byte* page = round.kv_pages.Page(pages[block]);
    memory.local_blocks[static_cast<size_t>(count++)] = {page + key_offset, page + value_offset,
                                                         block};
  };
  add_block(0);
  const int32_t first_local = SegmentEnd(segments - 1) / kKvPageTokens;
  for (int32_t b = first_local; b <= work.last_position / kKvPageTokens; ++b) add_block(b);
  SparseGroup group{};
  group.local_blocks = memory.local_blocks.data();
  group.local_block_count = count;
  group.kv_type = layout.layer(op.layer).type;
  group.segments = memory.segments.data();
  group.segment_count = segments;
  group.scale = op.scale;
  AttendHeads(round, op, state, work, group, worker);
}

std::unique_ptr<Step> MakeLateSealStep(const RoundState& round, const KvLayout& layout,
                                       SparseState& state) {
  return std::make_unique<LateSealStep>(round, layout, state);
}

std::unique_ptr<Step> MakeSealStep(const RoundState& round, const KvLayout& layout, int32_t layer,
                                   SparseState& state) {
  return std::make_unique<SealStep>(round, layout, layer, state);
}

}  // namespace remontoir
