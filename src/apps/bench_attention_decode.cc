// Empties caches, computes a row in every layer, and counts what it read.
#include "apps/bench_attention_decode.h"

#include <array>
#include <memory>
#include <numeric>

#include "apps/bench_attention_rounds.h"
#include "apps/bench_thread_seconds.h"
#include "eval/row_error.h"
#include "tensor/sealed_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

// From one row to the one measured next: another place in its group of 8.
constexpr int32_t kRowStep = 7;

struct LayerSums {
  std::vector<double> exact_seconds, sparse_seconds, speeds, exact_shares, sparse_shares;
  double far_blocks = 0;
  double chosen_blocks = 0;
  double errors = 0;
  double rows = 0;
  double seal_seconds = 0;
};

class DecodeRun {
 public:
  DecodeRun(const CapturedPages& pages, const SparseSetting& setting, ColdCaches& caches)
      : pages_(pages),
        setting_(setting),
        caches_(caches),
        sums_(static_cast<size_t>(pages.layout().layer_count())),
        exact_out_(sums_.size()) {}

  Status Prepare(const KernelTable& kernels) {
    REM_ASSIGN_OR_RETURN(exact_, AttentionRounds::Make(pages_, {}, kRowGroupPositions, kernels));
    const SparseAttentionOptions options = {.engage_at = kEngageAtCustomSparse,
                                            .epsilon = setting_.epsilon,
                                            .block_keys = setting_.block_keys};
    REM_ASSIGN_OR_RETURN(sparse_,
                         AttentionRounds::Make(pages_, options, kRowGroupPositions, kernels));
    for (int32_t layer = 0; layer < layers(); ++layer) {
      const int32_t keys = pages_.tokens() / kSegmentKeys * kSegmentKeys;
      sums_[static_cast<size_t>(layer)].seal_seconds =
          sparse_->SealUntil(layer, pages_.tokens()) / keys / pages_.layer(layer).kv_heads;
    }
    return Status::Ok();
  }

  void Step(int32_t position) {
    const double exact_rate = caches_.Walk();
    std::vector<double> seconds;
    for (int32_t layer = 0; layer < layers(); ++layer) {
      seconds.push_back(exact_->Run(layer, position, 1).all());
      exact_out_[static_cast<size_t>(layer)].assign(exact_->out().begin(), exact_->out().end());
    }
    const double sparse_rate = caches_.Walk();
    for (int32_t layer = 0; layer < layers(); ++layer) {
      const auto l = static_cast<size_t>(layer);
      LayerSums& sums = sums_[l];
      const double sparse_seconds = sparse_->Run(layer, position, 1).all();
      const SparseReadings readings = sparse_->readings();
      sums.exact_seconds.push_back(seconds[l]);
      sums.sparse_seconds.push_back(sparse_seconds);
      sums.speeds.push_back(seconds[l] / sparse_seconds);
      sums.exact_shares.push_back(ExactBytes(layer, position) / seconds[l] / exact_rate);
      sums.sparse_shares.push_back(SparseBytes(layer, position, readings) / sparse_seconds /
                                   sparse_rate);
      AddErrors(layer, sums);
      sums.far_blocks += static_cast<double>(readings.far_blocks);
      sums.chosen_blocks += static_cast<double>(readings.chosen_blocks);
    }
  }

  std::vector<DecodeSpeed> Report() const {
    std::vector<DecodeSpeed> report;
    for (int32_t layer = 0; layer < layers(); ++layer) {
      const LayerSums& sums = sums_[static_cast<size_t>(layer)];
      const CapturedAttention& data = pages_.layer(layer);
      DecodeSpeed speed;
      speed.layer = data.layer;
      speed.heads = data.heads;
      speed.kv_heads = data.kv_heads;
      speed.type = pages_.layout().layer(layer).type;
      speed.positions = pages_.tokens();
      speed.setting = setting_;
      speed.exact_seconds = SpreadOf(sums.exact_seconds).median;
      speed.sparse_seconds = SpreadOf(sums.sparse_seconds).median;
      speed.speed = SpreadOf(sums.speeds);
      speed.exact_read_share = SpreadOf(sums.exact_shares).median;
      speed.sparse_read_share = SpreadOf(sums.sparse_shares).median;
      if (sums.far_blocks > 0) speed.far_density = sums.chosen_blocks / sums.far_blocks;
      speed.rel_l2 = sums.errors / sums.rows;
      speed.seal_seconds = sums.seal_seconds;
      report.push_back(speed);
    }
    return report;
  }

 private:
  int32_t layers() const { return pages_.layout().layer_count(); }

  // Of one key and value.
  double TokenBytes(int32_t layer) const {
    const KvLayerShape& shape = pages_.layout().layer(layer);
    return static_cast<double>(RowBytes(shape.type, shape.key_width) +
                               RowBytes(shape.type, shape.value_width));
  }
  double ExactBytes(int32_t layer, int32_t position) const {
    return (position + 1.0) * TokenBytes(layer) * pages_.layer(layer).kv_heads;
  }
  // Anchor and local keys, chosen blocks, and of every far block its statistics and mean value.
  double SparseBytes(int32_t layer, int32_t position, const SparseReadings& readings) const {
    const CapturedAttention& data = pages_.layer(layer);
    const int32_t segments = FarSegments(position);
    const double near = position + 1.0 - double{kSegmentKeys} * segments;
    const SealedShape shape = {data.key_width, data.value_width,
                               SealedType(pages_.layout().layer(layer).type), setting_.block_keys};
    const SealedOffsets offsets = OffsetsOf(shape);
    const auto moments = static_cast<double>(offsets.order - offsets.statistics);
    return data.kv_heads * (near * TokenBytes(layer) + segments * moments) +
           static_cast<double>(readings.chosen_blocks) * setting_.block_keys * TokenBytes(layer);
  }

  void AddErrors(int32_t layer, LayerSums& sums) const {
    const CapturedAttention& data = pages_.layer(layer);
    const auto width = static_cast<size_t>(data.value_width);
    const std::span<const float> exact = exact_out_[static_cast<size_t>(layer)];
    for (size_t head = 0; head < static_cast<size_t>(data.heads); ++head) {
      sums.errors += RelativeError(exact.subspan(head * width, width),
                                   sparse_->out().subspan(head * width, width));
    }
    sums.rows += data.heads;
  }

  const CapturedPages& pages_;
  const SparseSetting setting_;
  ColdCaches& caches_;
  std::unique_ptr<AttentionRounds> exact_, sparse_;
  std::vector<LayerSums> sums_;
  std::vector<std::vector<float>> exact_out_;
};

}  // namespace

Result<ColdCaches> ColdCaches::Make(int64_t bytes) {
  ColdCaches caches;
  REM_ASSIGN_OR_RETURN(caches.memory_, MemoryRegion::Take(bytes, "a walk through memory"));
  const std::span<uint64_t> numbers = caches.numbers();
  std::iota(numbers.begin(), numbers.end(), uint64_t{1});
  return caches;
}

std::span<uint64_t> ColdCaches::numbers() const {
  return {reinterpret_cast<uint64_t*>(memory_.data()),
          static_cast<size_t>(memory_.size_bytes()) / sizeof(uint64_t)};
}

double ColdCaches::Walk() {
  constexpr size_t kChains = 16;
  const double start = ThreadSeconds();
  const std::span<const uint64_t> all = numbers();
  std::array<uint64_t, kChains> sums = {};
  for (size_t i = 0; i + kChains <= all.size(); i += kChains) {
    for (size_t c = 0; c < kChains; ++c) sums[c] += all[i + c];
  }
  sum_ = std::accumulate(sums.begin(), sums.end(), sum_);
  return static_cast<double>(memory_.size_bytes()) / (ThreadSeconds() - start);
}

Result<std::vector<DecodeSpeed>> MeasureDecode(std::span<const CapturedAttention* const> layers,
                                               int32_t positions, DType type,
                                               const SparseSetting& setting, int32_t rounds,
                                               ColdCaches& caches, const KernelTable& kernels) {
  REM_ASSIGN_OR_RETURN(const CapturedPages pages,
                       CapturedPages::Store(layers, positions, type, kernels));
  DecodeRun run(pages, setting, caches);
  REM_RETURN_IF_ERROR(run.Prepare(kernels));
  for (int32_t round = 0; round < rounds; ++round) run.Step(positions - 1 - round * kRowStep);
  return run.Report();
}

}  // namespace remontoir
