// Seals a layer's keys, a head at a time, and attends to them both ways.
#include "eval/layer_errors.h"

#include <algorithm>
#include <utility>

#include "backend/seal_segment.h"
#include "backend/sparse_layers.h"
#include "base/check.h"
#include "eval/row_error.h"
#include "tensor/sealed_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

constexpr int32_t kPartialPages = kKvPartialKeys / kKvPageTokens;

// One KV head of a layer in its pages, with its sealed segments.
class HeadKeys {
 public:
  HeadKeys(const KernelTable& kernels, const KvLayout& layout, const KvPages& pages,
           std::span<const KvPageId> page_table, int32_t layer, int32_t head, int32_t block_keys)
      : kernels_(kernels),
        layout_(layout),
        pages_(pages),
        page_table_(page_table),
        layer_(layer),
        head_(head),
        shape_{layout.layer(layer).key_width, layout.layer(layer).value_width,
               SealedType(layout.layer(layer).type), block_keys} {}

  const SealedShape& shape() const { return shape_; }
  DType type() const { return layout_.layer(layer_).type; }

  void Seal(int32_t segments) {
    const int64_t bytes = OffsetsOf(shape_).bytes;
    sealed_.resize(static_cast<size_t>(segments * bytes));
    SealScratch scratch;
    scratch.Reserve(shape_.key_width, shape_.value_width);
    for (int32_t s = 0; s < segments; ++s) {
      std::vector<const std::byte*> keys;
      std::vector<const std::byte*> values;
      const int32_t first = SegmentEnd(s - 1) / kKvPageTokens;
      for (int32_t page = first; page < first + kSegmentPages; ++page) {
        const KeyBlock block = Block(page);
        keys.push_back(block.keys);
        values.push_back(block.values);
      }
      std::byte* out = sealed_.data() + s * bytes;
      SealSegment(kernels_, shape_, {keys.data(), values.data(), type()}, scratch, out);
      segments_.push_back(out);
    }
  }
  const std::byte* const* segments() const { return segments_.data(); }

  KeyBlock Block(int32_t page) const {
    const std::byte* at = pages_.Page(page_table_[static_cast<size_t>(page)]);
    return {at + layout_.key_offset(layer_, head_), at + layout_.value_offset(layer_, head_), page};
  }

 private:
  const KernelTable& kernels_;
  const KvLayout& layout_;
  const KvPages& pages_;
  const std::span<const KvPageId> page_table_;
  const int32_t layer_;
  const int32_t head_;
  const SealedShape shape_;
  std::vector<std::byte> sealed_;
  std::vector<const std::byte*> segments_;
};

// Attention of some rows to one head: memory for it, and both ways.
class BothWays {
 public:
  BothWays(const KernelTable& kernels, const HeadKeys& keys, float scale, int32_t rows_max,
           int32_t segments)
      : kernels_(kernels),
        keys_(keys),
        scale_(scale),
        width_(static_cast<size_t>(keys.shape().value_width)),
        states_(static_cast<size_t>(rows_max)),
        partial_states_(states_.size()),
        exact_(states_.size() * width_),
        partial_sums_(exact_.size()),
        sparse_(exact_.size()),
        residuals_(states_.size()) {
    scratch_.Reserve(rows_max, keys.shape(), segments);
  }

  std::span<const float> Exact(size_t row) const { return {&exact_[row * width_], width_}; }
  std::span<const float> Sparse(size_t row) const { return {&sparse_[row * width_], width_}; }
  double Residual(size_t row) const { return residuals_[row]; }

  void AttendExactly(std::span<const AttentionRow> rows, int32_t last_position) {
    const int32_t pages = last_position / kKvPageTokens + 1;
    for (int32_t first = 0; first < pages; first += kPartialPages) {
      const bool merges = first > 0;
      AttendPages(rows, first, std::min(pages, first + kPartialPages),
                  merges ? partial_states_.data() : states_.data(),
                  merges ? partial_sums_.data() : exact_.data());
      for (size_t r = 0; r < rows.size() && merges; ++r) {
        kernels_.merge_partial(partial_states_[r], &partial_sums_[r * width_], Width(), &states_[r],
                               &exact_[r * width_]);
      }
    }
    Finish(rows.size(), exact_.data());
  }

  SparseCounts AttendSparsely(std::span<const AttentionRow> rows, int32_t first_position,
                              int32_t last_position, const SparseSettings& settings) {
    const int32_t segments = FarSegments(first_position);
    blocks_.assign(1, keys_.Block(0));
    const int32_t first_local = std::max(1, SegmentEnd(segments - 1) / kKvPageTokens);
    for (int32_t page = first_local; page <= last_position / kKvPageTokens; ++page) {
      blocks_.push_back(keys_.Block(page));
    }
    SparseGroup group{};
    group.rows = rows.data();
    group.row_count = static_cast<int>(rows.size());
    group.local_blocks = blocks_.data();
    group.local_block_count = static_cast<int>(blocks_.size());
    group.kv_type = keys_.type();
    group.segments = keys_.segments();
    group.segment_count = segments;
    group.scale = scale_;
    group.states = states_.data();
    group.sums = sparse_.data();
    group.residuals = residuals_.data();
    const SparseCounts counts = AttendSparse(kernels_, keys_.shape(), settings, group, scratch_);
    Finish(rows.size(), sparse_.data());
    return counts;
  }

 private:
  int Width() const { return static_cast<int>(width_); }

  void AttendPages(std::span<const AttentionRow> rows, int32_t first, int32_t end,
                   SoftmaxState* states, float* sums) {
    blocks_.clear();
    for (int32_t page = first; page < end; ++page) blocks_.push_back(keys_.Block(page));
    AttentionPartial partial{};
    partial.rows = rows.data();
    partial.row_count = static_cast<int>(rows.size());
    partial.blocks = blocks_.data();
    partial.block_count = static_cast<int>(blocks_.size());
    partial.key_width = keys_.shape().key_width;
    partial.value_width = Width();
    partial.scale = scale_;
    partial.states = states;
    partial.sums = sums;
    kernels_.attention_partial[static_cast<size_t>(keys_.type())](partial);
  }

  void Finish(size_t rows, float* sums) {
    kernels_.finish_rows(states_.data(), sums, static_cast<int>(rows), Width(), nullptr, sums);
  }

  const KernelTable& kernels_;
  const HeadKeys& keys_;
  const float scale_;
  const size_t width_;
  std::vector<SoftmaxState> states_, partial_states_;
  std::vector<float> exact_, partial_sums_, sparse_, residuals_;
  std::vector<KeyBlock> blocks_;
  SparseScratch scratch_;
};

}  // namespace

LayerErrorMeter::LayerErrorMeter(int32_t heads)
    : head_errors_(static_cast<size_t>(heads)), head_rows_(static_cast<size_t>(heads)) {}

void LayerErrorMeter::AddRow(int32_t head, double error, double residual) {
  head_errors_[static_cast<size_t>(head)] += error;
  ++head_rows_[static_cast<size_t>(head)];
  residuals_ += residual;
  residual_max_ = std::max(residual_max_, residual);
  error_max_ = std::max(error_max_, error);
  if (IsMissedAlarm(error, residual)) ++alarms_;
}

void LayerErrorMeter::AddBlocks(const SparseCounts& counts) {
  far_blocks_ += counts.far_blocks;
  chosen_blocks_ += counts.chosen_blocks;
}

LayerError LayerErrorMeter::Get(int32_t layer) const {
  LayerError error;
  error.layer = layer;
  error.error_max = error_max_;
  error.residual_max = residual_max_;
  double errors = 0;
  for (size_t head = 0; head < head_rows_.size(); ++head) {
    if (head_rows_[head] == 0) continue;
    error.rows += head_rows_[head];
    errors += head_errors_[head];
    const double mean = head_errors_[head] / static_cast<double>(head_rows_[head]);
    if (mean <= error.error_worst_head) continue;
    error.error_worst_head = mean;
    error.worst_head = static_cast<int32_t>(head);
  }
  if (far_blocks_ > 0) {
    error.density = static_cast<double>(chosen_blocks_) / static_cast<double>(far_blocks_);
  }
  if (error.rows == 0) return error;
  const auto rows = static_cast<double>(error.rows);
  error.error_mean = errors / rows;
  error.residual_mean = residuals_ / rows;
  error.alarm_rate = static_cast<double>(alarms_) / rows;
  return error;
}

LayerSummary Summarise(std::span<const LayerError> layers) {
  LayerSummary summary;
  double rows = 0;
  for (const LayerError& layer : layers) rows += static_cast<double>(layer.rows);
  if (rows == 0) return summary;
  for (const LayerError& layer : layers) {
    const double share = static_cast<double>(layer.rows) / rows;
    summary.error_mean += share * layer.error_mean;
    summary.alarm_rate += share * layer.alarm_rate;
    summary.density += layer.density / static_cast<double>(layers.size());
    if (layer.error_mean <= summary.error_worst_layer) continue;
    summary.error_worst_layer = layer.error_mean;
    summary.worst_layer = layer.layer;
  }
  return summary;
}

LayerSample SamplePositions(int32_t first, int32_t end, int32_t group_positions,
                            int32_t positions_max) {
  LayerSample sample = {.group_positions = group_positions, .positions = {}};
  const int32_t begin = (first + group_positions - 1) / group_positions;
  const int32_t groups = std::max(0, end / group_positions - begin);
  const int32_t taken = std::min(groups, positions_max / group_positions);
  for (int32_t i = 0; i < taken; ++i) {
    // The last group of each of `taken` equal parts.
    const auto group = static_cast<int32_t>(int64_t{groups} * (i + 1) / taken) - 1;
    for (int32_t p = 0; p < group_positions; ++p) {
      sample.positions.push_back((begin + group) * group_positions + p);
    }
  }
  return sample;
}

LayerProbe::LayerProbe(const KernelTable& kernels, LayerSample sample)
    : kernels_(kernels), sample_(std::move(sample)) {}

void LayerProbe::Observe(const AttentionBatch& batch) {
  if (!MayBeSparse(TraitsOf(batch))) return;
  layout_ = batch.layout;
  pages_ = batch.kv_pages;
  const auto first_page = static_cast<size_t>(batch.page_table_begin[0]);
  const auto end_page = static_cast<size_t>(batch.page_table_begin[1]);
  if (end_page - first_page > page_table_.size()) {
    page_table_.assign(batch.page_table.begin() + static_cast<std::ptrdiff_t>(first_page),
                       batch.page_table.begin() + static_cast<std::ptrdiff_t>(end_page));
  }
  auto layer = std::find_if(layers_.begin(), layers_.end(),
                            [&](const Layer& one) { return one.layer == batch.layer; });
  if (layer == layers_.end()) {
    layers_.push_back(
        {.layer = batch.layer, .heads = batch.heads, .scale = batch.scale, .queries = {}});
    layer = layers_.end() - 1;
  }
  const auto keys = static_cast<int32_t>(batch.cu_seqlens_k[1]);
  const int32_t first = keys - batch.cu_seqlens_q[1];
  const int64_t width = int64_t{batch.heads} * batch.layout->layer(batch.layer).key_width;
  const auto begin = std::lower_bound(sample_.positions.begin(), sample_.positions.end(), first);
  for (auto position = begin; position != sample_.positions.end() && *position < keys; ++position) {
    const float* query = batch.queries.data() + (*position - first) * width;
    layer->queries.insert(layer->queries.end(), query, query + width);
  }
}

// Rows of query heads first_head ... of the sampled group that begins at `at`, position by
// position.
std::vector<AttentionRow> LayerProbe::RowsOf(const Layer& layer, size_t at, int32_t first_head,
                                             int32_t heads) const {
  const int32_t width = layout_->layer(layer.layer).key_width;
  std::vector<AttentionRow> rows;
  for (size_t i = at; i < at + static_cast<size_t>(sample_.group_positions); ++i) {
    for (int32_t head = first_head; head < first_head + heads; ++head) {
      const int64_t row = static_cast<int64_t>(i) * layer.heads + head;
      rows.push_back({layer.queries.data() + row * width, 0, sample_.positions[i] + 1});
    }
  }
  return rows;
}

void LayerProbe::MeasureHead(const Layer& layer, int32_t kv_head, const SparseSettings& settings,
                             int32_t block_keys, LayerErrorMeter& meter) const {
  const int32_t heads = layer.heads / layout_->layer(layer.layer).kv_heads;
  // The heads of one position share a list; those of several positions have one each.
  const int32_t together = sample_.group_positions == 1 ? heads : 1;
  const int32_t segments = FarSegments(sample_.positions.back());
  HeadKeys keys(kernels_, *layout_, pages_, page_table_, layer.layer, kv_head, block_keys);
  keys.Seal(segments);
  BothWays both(kernels_, keys, layer.scale, sample_.group_positions * together, segments);
  for (size_t at = 0; at < sample_.positions.size();
       at += static_cast<size_t>(sample_.group_positions)) {
    for (int32_t h = 0; h < heads; h += together) {
      const int32_t first_head = kv_head * heads + h;
      const std::vector<AttentionRow> rows = RowsOf(layer, at, first_head, together);
      const int32_t last = rows.back().key_end - 1;
      both.AttendExactly(rows, last);
      meter.AddBlocks(both.AttendSparsely(rows, rows.front().key_end - 1, last, settings));
      for (size_t r = 0; r < rows.size(); ++r) {
        meter.AddRow(first_head + static_cast<int32_t>(r) % together,
                     RelativeError(both.Exact(r), both.Sparse(r)), both.Residual(r));
      }
    }
  }
}

std::vector<LayerError> LayerProbe::Measure(const SparseSettings& settings,
                                            int32_t block_keys) const {
  std::vector<LayerError> errors;
  if (sample_.positions.empty()) return errors;
  for (const Layer& layer : layers_) {
    LayerErrorMeter meter(layer.heads);
    for (int32_t head = 0; head < layout_->layer(layer.layer).kv_heads; ++head) {
      MeasureHead(layer, head, settings, block_keys, meter);
    }
    errors.push_back(meter.Get(layer.layer));
  }
  return errors;
}

}  // namespace remontoir
