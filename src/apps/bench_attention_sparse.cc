// Rounds of rows in turns, sums over a prefill, medians over prefills.
#include "apps/bench_attention_sparse.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "apps/bench_attention_rounds.h"
#include "apps/bench_ceilings.h"
#include "apps/bench_thread_seconds.h"
#include "backend/sparse_layers.h"
#include "eval/row_error.h"
#include "tensor/sealed_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

constexpr int32_t kRoundRows = 512;        // of a server's prefill
constexpr int64_t kPeakLoops = 1'000'000;  // some milliseconds

double Square(double x) { return x * x; }

// Of pairs and rows, as prefill goes on.
class QualitySums {
 public:
  QualitySums(const CapturedAttention& data, int32_t block_keys)
      : heads_(data.heads), width_(data.value_width), block_keys_(block_keys) {}

  // Rows [first, first + rows) of all heads.
  void Add(int32_t first, int32_t rows, std::span<const float> exact, std::span<const float> sparse,
           const SparseReadings& readings) {
    far_ += static_cast<double>(readings.far_blocks);
    chosen_ += static_cast<double>(readings.chosen_blocks);
    residual_max_ = std::max(residual_max_, static_cast<double>(readings.residual_max));
    // Groups of 8 positions share a list, and each head has its own.
    pairs_ +=
        static_cast<double>(readings.chosen_blocks) / heads_ * block_keys_ * kRowGroupPositions;
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t position = first + r;
      all_pairs_ += position + 1.0;
      const bool is_sparse = position >= kEngageAtCustomSparse;
      pairs_ += position + 1.0;
      if (!is_sparse) continue;
      pairs_ -= double{kSegmentKeys} * FarSegments(position);
      for (int32_t head = 0; head < heads_; ++head) AddRow(r * heads_ + head, exact, sparse);
    }
  }

  SparseQuality Quality() const {
    SparseQuality quality;
    quality.density = pairs_ / all_pairs_;
    quality.residual_max = residual_max_;
    if (far_ > 0) quality.far_density = chosen_ / far_;
    if (exact2_ > 0) quality.rel_l2 = std::sqrt(difference2_ / exact2_);
    if (rows_ > 0) quality.rel_l2_rows = errors_ / static_cast<double>(rows_);
    return quality;
  }

 private:
  void AddRow(int64_t row, std::span<const float> exact, std::span<const float> sparse) {
    const auto begin = static_cast<size_t>(row * width_);
    const auto width = static_cast<size_t>(width_);
    for (size_t i = begin; i < begin + width; ++i) {
      difference2_ += Square(static_cast<double>(sparse[i]) - exact[i]);
      exact2_ += Square(exact[i]);
    }
    errors_ += RelativeError(exact.subspan(begin, width), sparse.subspan(begin, width));
    ++rows_;
  }

  const int32_t heads_;
  const int32_t width_;
  const int32_t block_keys_;
  double difference2_ = 0, exact2_ = 0, errors_ = 0;
  double far_ = 0, chosen_ = 0, residual_max_ = 0;
  double pairs_ = 0, all_pairs_ = 0;  // of one head
  int64_t rows_ = 0;
};

struct SettingRun {
  SparseSetting setting;
  std::unique_ptr<AttentionRounds> rounds;
  QualitySums sums;
  RoundSeconds now;  // of the prefill that runs
  std::vector<double> seconds, seal_parts, speeds;
};

class PrefillRun {
 public:
  PrefillRun(const CapturedAttention& data, const CapturedPages& pages, const KernelTable& kernels)
      : data_(data), pages_(pages), kernels_(kernels), peak_(FmaLoopOf(kernels.name)) {}

  Status Prepare(std::span<const SparseSetting> settings) {
    REM_ASSIGN_OR_RETURN(exact_, AttentionRounds::Make(pages_, {}, kRoundRows, kernels_));
    for (const SparseSetting& setting : settings) {
      const SparseAttentionOptions options = {.engage_at = kEngageAtCustomSparse,
                                              .epsilon = setting.epsilon,
                                              .block_keys = setting.block_keys};
      REM_ASSIGN_OR_RETURN(auto rounds,
                           AttentionRounds::Make(pages_, options, kRoundRows, kernels_));
      runs_.push_back(
          {setting, std::move(rounds), QualitySums(data_, setting.block_keys), {}, {}, {}, {}});
    }
    return Status::Ok();
  }

  void Prefill(bool is_first) {
    double exact_seconds = 0;
    for (SettingRun& run : runs_) {
      run.now = {};
      run.rounds->Unseal();
    }
    for (int32_t first = 0; first < pages_.tokens(); first += kRoundRows) {
      const int32_t rows = std::min(kRoundRows, pages_.tokens() - first);
      exact_seconds += exact_->Run(0, first, rows).all();
      for (SettingRun& run : runs_) {
        const RoundSeconds seconds = run.rounds->Run(0, first, rows);
        run.now.seal += seconds.seal;
        run.now.attend += seconds.attend;
        if (is_first) {
          run.sums.Add(first, rows, exact_->out(), run.rounds->out(), run.rounds->readings());
        }
      }
    }
    exact_seconds_.push_back(exact_seconds);
    for (SettingRun& run : runs_) {
      run.seconds.push_back(run.now.all());
      run.seal_parts.push_back(run.now.seal / run.now.all());
      run.speeds.push_back(exact_seconds / run.now.all());
    }
    fma_shares_.push_back(FmaShare(exact_seconds));
  }

  std::vector<PrefillSpeed> Report() const {
    std::vector<PrefillSpeed> report;
    for (const SettingRun& run : runs_) {
      PrefillSpeed speed;
      speed.positions = pages_.tokens();
      speed.setting = run.setting;
      speed.exact_seconds = SpreadOf(exact_seconds_).median;
      speed.sparse_seconds = SpreadOf(run.seconds).median;
      speed.seal_part = SpreadOf(run.seal_parts).median;
      speed.fma_share = SpreadOf(fma_shares_).median;
      speed.speed = SpreadOf(run.speeds);
      speed.quality = run.sums.Quality();
      report.push_back(speed);
    }
    return report;
  }

 private:
  double FmaShare(double seconds) const {
    if (peak_.run == nullptr) return 0;
    const double start = ThreadSeconds();
    peak_.run(kPeakLoops);
    const double peak =
        peak_.ops_per_loop * static_cast<double>(kPeakLoops) / (ThreadSeconds() - start);
    const double n = pages_.tokens();
    // A product and a sum for each pair and value, of keys and of values.
    const double ops = n * (n + 1) / 2 * data_.heads * 2 * (data_.key_width + data_.value_width);
    return ops / seconds / peak;
  }

  const CapturedAttention& data_;
  const CapturedPages& pages_;
  const KernelTable& kernels_;
  const FmaLoop peak_;
  std::unique_ptr<AttentionRounds> exact_;
  std::vector<SettingRun> runs_;
  std::vector<double> exact_seconds_, fma_shares_;
};

}  // namespace

Result<std::vector<PrefillSpeed>> MeasurePrefill(const CapturedAttention& data, int32_t positions,
                                                 std::span<const SparseSetting> settings,
                                                 int32_t rounds, const KernelTable& kernels) {
  if (!MayBeSparse(data.traits())) {
    return Unsupported("bench attention: layer " + std::to_string(data.layer) +
                       " may not be sparse, and stays exact");
  }
  const CapturedAttention* layers[] = {&data};
  REM_ASSIGN_OR_RETURN(const CapturedPages pages,
                       CapturedPages::Store(layers, positions, DType::kF32, kernels));
  PrefillRun run(data, pages, kernels);
  REM_RETURN_IF_ERROR(run.Prepare(settings));
  for (int32_t round = 0; round < rounds; ++round) run.Prefill(round == 0);
  return run.Report();
}

double GrowthExponent(double n_from, double seconds_from, double n_to, double seconds_to) {
  return std::log(seconds_to / seconds_from) / std::log(n_to / n_from);
}

}  // namespace remontoir
