// A sampled prefill, its masks, and rounds of timing.
#include "apps/bench_attention_masked.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "apps/bench_ceilings.h"
#include "apps/bench_thread_seconds.h"
#include "backend/flash_attention.h"
#include "backend/memory_region.h"
#include "base/check.h"
#include "base/random.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

constexpr int32_t kKeysMax = 8192;
constexpr int32_t kStretch = 1024;   // positions of which the last are computed
constexpr int32_t kChunkRows = 128;  // of each stretch
constexpr double kDensities[] = {0.05, 0.1, 0.25, 0.5};
constexpr double kGiga = 1e9;
constexpr int64_t kPeakLoops = 1'000'000;  // some milliseconds

// Blocks of the masks. The last is the finest that there is: lists of panels for each row group.
struct MaskShape {
  int32_t keys_per_block;
  int32_t positions_per_block;
};
constexpr MaskShape kMaskShapes[] = {{128, 32}, {64, 32}, {32, 32}, {16, 32}, {16, 8}};

double SecondsOf(const std::function<void()>& call, int32_t times) {
  const double start = ThreadSeconds();
  for (int32_t i = 0; i < times; ++i) call();
  return (ThreadSeconds() - start) / times;
}

// The first `width` values of head `head`'s neighbourhood: of that head, or of it and those that
// follow (around the end), as many as it takes.
std::vector<float> JoinHeads(std::span<const float> row, int32_t heads, int32_t head_width,
                             int32_t head, int32_t step, int32_t width) {
  std::vector<float> joined;
  for (; static_cast<int32_t>(joined.size()) < width; head = (head + step) % heads) {
    const auto part = row.subspan(static_cast<size_t>(int64_t{head} * head_width),
                                  static_cast<size_t>(head_width));
    joined.insert(joined.end(), part.begin(), part.end());
  }
  joined.resize(static_cast<size_t>(width));
  return joined;
}

// One KV head's part of the batch, of heads of this width.
class SampledPrefill {
 public:
  SampledPrefill(const CapturedAttention& data, DType type, int32_t width,
                 const KernelTable& kernels)
      : heads_(data.heads_per_kv()),
        width_(width),
        scale_(1 / std::sqrt(static_cast<float>(width))),
        layout_({{.kv_heads = 1, .key_width = width, .value_width = width, .type = type}}),
        workspace_(1, kernels) {
    const int32_t keys = std::min(data.tokens, kKeysMax) / kStretch * kStretch;
    StorePages(data, keys, kernels);
    for (int32_t end = kStretch; end <= keys; end += kStretch) AddChunk(data, end);
    out_.resize(queries_.size());
  }

  double Seconds(const TileSchedule& schedule, int32_t times) {
    AttentionBatch batch;
    batch.queries = queries_;
    batch.out = out_;
    batch.heads = heads_;
    batch.layout = &layout_;
    batch.kv_pages = {pages_.data(), layout_.page_bytes()};
    batch.page_count = page_count_;
    batch.page_table = page_table_;
    batch.page_table_begin = page_table_begin_;
    batch.cu_seqlens_q = cu_q_;
    batch.cu_seqlens_k = cu_k_;
    batch.schedule = &schedule;
    batch.scale = scale_;
    return SecondsOf(
        [&] {
          const Status status = flash_attn_varlen_fwd_with_sparsity_mask(batch, &workspace_);
          REM_CHECK(status.ok(), status.message());
        },
        times);
  }

  TileScheduleBuilder Builder(int32_t keys_per_block) const {
    return TileScheduleBuilder(cu_q_.back(), static_cast<int32_t>(cu_q_.size()) - 1, keys(),
                               keys_per_block);
  }
  const std::vector<int32_t>& cu_q() const { return cu_q_; }
  const std::vector<int64_t>& cu_k() const { return cu_k_; }
  int32_t keys() const { return static_cast<int32_t>(cu_k_.back() - cu_k_[cu_k_.size() - 2]); }
  int32_t rows() const { return cu_q_.back(); }
  int32_t heads() const { return heads_; }

  // (query, key) pairs in the tiles of the lists, whether or not the query may see the key.
  static double TilePairs(const TileSchedule& schedule) {
    double pairs = 0;
    for (int group = 0; group < schedule.group_count(); ++group) {
      pairs += static_cast<double>(schedule.list(group).size()) *
               schedule.group_rows[static_cast<size_t>(group)] * schedule.keys_per_block;
    }
    return pairs;
  }

  // (query, key) pairs that the lists have computed, of one head.
  double Pairs(const TileSchedule& schedule) const {
    double pairs = 0;
    for (int group = 0; group < schedule.group_count(); ++group) {
      const auto g = static_cast<size_t>(group);
      const auto s = static_cast<size_t>(schedule.group_sequence[g]);
      const auto keys = static_cast<int32_t>(cu_k_[s + 1] - cu_k_[s]);
      const int32_t first = keys - (cu_q_[s + 1] - schedule.group_first_row[g]);
      for (int32_t r = 0; r < schedule.group_rows[g]; ++r) {
        const KeyRange range = AlongList(schedule, group, VisibleKeys(first + r, 0));
        pairs += range.end - range.begin;
      }
    }
    return pairs;
  }
  double Ops(const TileSchedule& schedule) const { return 4.0 * heads_ * width_ * Pairs(schedule); }

 private:
  void StorePages(const CapturedAttention& data, int32_t keys, const KernelTable& kernels) {
    page_count_ = keys / kKvPageTokens;
    // Aligned, as the pages of a server are.
    Result<MemoryRegion> pages =
        MemoryRegion::Take(page_count_ * layout_.page_bytes(), "pages of a sampled prefill");
    REM_CHECK(pages.ok(), pages.status().message());
    pages_ = std::move(*pages);
    const DType type = layout_.layer(0).type;
    const auto row_of = [&](const std::vector<float>& rows, int32_t key, int32_t head_width) {
      const auto values = static_cast<size_t>(int64_t{data.kv_heads} * head_width);
      const auto row = std::span(rows).subspan(static_cast<size_t>(key) * values, values);
      return JoinHeads(row, data.kv_heads, head_width, 0, 1, width_);
    };
    for (int32_t key = 0; key < keys; ++key) {
      std::byte* page = pages_.data() + key / kKvPageTokens * layout_.page_bytes();
      const int32_t slot = key % kKvPageTokens;
      kernels.store_key(row_of(data.keys, key, data.key_width).data(), width_, type, slot,
                        page + layout_.key_offset(0, 0));
      kernels.store_value(row_of(data.values, key, data.value_width).data(), width_, type, slot,
                          page + layout_.value_offset(0, 0));
    }
  }

  // The rows of the stretch that ends there, as a sequence of its own in the same pages.
  void AddChunk(const CapturedAttention& data, int32_t end) {
    const auto values = static_cast<size_t>(int64_t{data.heads} * data.key_width);
    for (int32_t position = end - kChunkRows; position < end; ++position) {
      const auto row =
          std::span(data.queries).subspan(static_cast<size_t>(position) * values, values);
      for (int32_t head = 0; head < heads_; ++head) {
        const auto query =
            JoinHeads(row, data.heads, data.key_width, head, data.heads_per_kv(), width_);
        queries_.insert(queries_.end(), query.begin(), query.end());
      }
    }
    for (int32_t page = 0; page < end / kKvPageTokens; ++page) {
      page_table_.push_back(KvPageId(page));
    }
    page_table_begin_.push_back(static_cast<int32_t>(page_table_.size()));
    cu_q_.push_back(cu_q_.back() + kChunkRows);
    cu_k_.push_back(cu_k_.back() + end);
  }

  const int32_t heads_;
  const int32_t width_;
  const float scale_;
  const KvLayout layout_;
  MemoryRegion pages_;
  int32_t page_count_ = 0;
  std::vector<KvPageId> page_table_;
  std::vector<int32_t> page_table_begin_ = {0};
  std::vector<int32_t> cu_q_ = {0};
  std::vector<int64_t> cu_k_ = {0};
  std::vector<float> queries_, out_;
  FlashAttentionWorkspace workspace_;
};

// Lists of a random mask and how often it is run in a round, so that a round's parts take about as
// long as each other.
struct MaskedLists {
  MaskShape shape;
  TileScheduleBuilder builder;
  TileSchedule schedule;
  double density = 0;
  double pair_density = 0;
  int32_t times = 1;
  std::vector<double> seconds_ratios;  // dense / masked
};

// [query block][key block] of a mask that keeps the diagonal, and others by chance.
std::vector<uint8_t> DrawBlocks(MaskShape shape, int32_t keys, double chance, uint64_t seed) {
  const int32_t query_blocks = keys / shape.positions_per_block;
  const int32_t key_blocks = keys / shape.keys_per_block;
  const CounterRandom random(seed, 5);
  std::vector<uint8_t> visible;
  for (int32_t q = 0; q < query_blocks; ++q) {
    for (int32_t k = 0; k < key_blocks; ++k) {
      const bool on_diagonal = k * shape.keys_per_block < (q + 1) * shape.positions_per_block &&
                               (k + 1) * shape.keys_per_block > q * shape.positions_per_block;
      const bool drawn = random.Uniform(visible.size()) < chance;
      visible.push_back(on_diagonal || drawn ? 1 : 0);
    }
  }
  return visible;
}

std::unique_ptr<MaskedLists> MakeLists(const SampledPrefill& prefill, MaskShape shape,
                                       double density) {
  auto lists = std::unique_ptr<MaskedLists>(
      new MaskedLists{shape, prefill.Builder(shape.keys_per_block), {}, 0, 0, 1, {}});
  const TileSchedule full = lists->builder.Build(prefill.cu_q(), prefill.cu_k(), 0);
  const double tiles = SampledPrefill::TilePairs(full);
  const double pairs = prefill.Pairs(full);
  const auto build = [&](double chance) {
    const std::vector<uint8_t> visible =
        DrawBlocks(shape, prefill.keys(), chance, static_cast<uint64_t>(density * 1000));
    ScheduleMask mask;
    mask.blocks = {.visible = visible,
                   .query_blocks = prefill.keys() / shape.positions_per_block,
                   .key_blocks = prefill.keys() / shape.keys_per_block,
                   .positions_per_block = shape.positions_per_block};
    lists->schedule = lists->builder.Build(prefill.cu_q(), prefill.cu_k(), mask);
    lists->density = SampledPrefill::TilePairs(lists->schedule) / tiles;
    lists->pair_density = prefill.Pairs(lists->schedule) / pairs;
  };
  build(0);
  build(std::max(0.0, (density - lists->density) / (1 - lists->density)));
  lists->times = std::max(1, static_cast<int32_t>(0.3 / lists->density));
  return lists;
}

Spread Times(double factor, std::vector<double> values) {
  for (double& value : values) value *= factor;
  return SpreadOf(values);
}

// Everything about pages of one type and width.
void MeasurePages(const CapturedAttention& data, const KernelTable& kernels, const FmaLoop& peak,
                  DType type, int32_t width, int32_t rounds, MaskedReport* report) {
  SampledPrefill prefill(data, type, width, kernels);
  report->keys = prefill.keys();
  report->rows = prefill.rows();
  report->heads = prefill.heads();
  TileScheduleBuilder builder = prefill.Builder(kKvPageTokens);
  const TileSchedule dense = builder.Build(prefill.cu_q(), prefill.cu_k(), 0);
  std::vector<std::unique_ptr<MaskedLists>> all;
  for (const MaskShape shape : kMaskShapes) {
    for (const double density : kDensities) {
      all.push_back(MakeLists(prefill, shape, density));
    }
  }
  std::vector<double> ratios, rates, peaks;
  prefill.Seconds(dense, 1);  // warm
  for (int32_t round = 0; round < rounds; ++round) {
    const double before = prefill.Seconds(dense, 1);
    const double peak_seconds = SecondsOf([&] { peak.run(kPeakLoops); }, 1);
    double dense_seconds = before;
    for (size_t i = 0; i < all.size(); ++i) {
      // A dense run stands before the masked ones of each shape.
      if (i > 0 && i % std::size(kDensities) == 0) dense_seconds = prefill.Seconds(dense, 1);
      const double seconds = prefill.Seconds(all[i]->schedule, all[i]->times);
      all[i]->seconds_ratios.push_back(dense_seconds / seconds);
    }
    rates.push_back(prefill.Ops(dense) / before / kGiga);
    peaks.push_back(peak.ops_per_loop * static_cast<double>(kPeakLoops) / peak_seconds / kGiga);
    ratios.push_back(rates.back() / peaks.back());
  }
  report->exact.push_back(
      {type, width, SpreadOf(rates).median, SpreadOf(peaks).median, SpreadOf(ratios)});
  for (const auto& lists : all) {
    report->masked.push_back({type, width, lists->shape.keys_per_block,
                              lists->shape.positions_per_block, lists->density,
                              Times(lists->density, lists->seconds_ratios), lists->pair_density,
                              Times(lists->pair_density, lists->seconds_ratios)});
  }
}

}  // namespace

double MaskedReport::fma_ratio() const {
  double worst = 1;
  for (const ExactSpeed& speed : exact) {
    if (speed.type == DType::kF32) worst = std::min(worst, speed.fma_ratio.median);
  }
  return worst;
}

const MaskedSpeed* MaskedReport::Worst(int32_t from, int32_t to) const {
  const MaskedSpeed* worst = nullptr;
  for (const MaskedSpeed& speed : masked) {
    if (speed.keys_per_block < from || speed.keys_per_block > to) continue;
    if (speed.positions_per_block == kRowGroupPositions) continue;
    if (worst == nullptr || speed.effective.median < worst->effective.median) worst = &speed;
  }
  return worst;
}

const MaskedSpeed* MaskedReport::WorstOfRowGroups() const {
  const MaskedSpeed* worst = nullptr;
  for (const MaskedSpeed& speed : masked) {
    if (speed.positions_per_block != kRowGroupPositions) continue;
    if (worst == nullptr || speed.effective.median < worst->effective.median) worst = &speed;
  }
  return worst;
}

Result<MaskedReport> MeasureMasked(const CapturedAttention& data, const KernelTable& kernels,
                                   int32_t rounds) {
  const FmaLoop peak = FmaLoopOf(kernels.name);
  if (peak.run == nullptr) {
    return Unsupported("bench attention: no peak is known of kernels named " +
                       std::string(kernels.name));
  }
  if (data.tokens < kStretch) {
    return InvalidArgument("bench attention: " + std::to_string(data.tokens) +
                           " tokens, wanted 1024 or more");
  }
  MaskedReport report;
  for (const DType type : {DType::kF32, DType::kF16}) {
    for (const int32_t width : {64, 128}) {
      MeasurePages(data, kernels, peak, type, width, rounds, &report);
    }
  }
  return report;
}

}  // namespace remontoir
