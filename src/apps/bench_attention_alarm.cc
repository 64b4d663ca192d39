// Head by head: exact rows, sparse rows, and the residuals that come with them.
#include "apps/bench_attention_alarm.h"

#include <algorithm>
#include <memory>

#include "apps/bench_attention_heads.h"
#include "apps/bench_attention_rounds.h"
#include "eval/row_error.h"
#include "tensor/sealed_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

// First positions of groups, evenly over those that are sparse.
std::vector<int32_t> SampledGroups(int32_t positions, int32_t groups) {
  std::vector<int32_t> firsts;
  const int32_t all = (positions - kEngageAtCustomSparse) / kRowGroupPositions;
  for (int64_t i = 0; i < std::min(all, groups); ++i) {
    const auto group = static_cast<int32_t>((2 * i + 1) * all / (2 * std::min(all, groups)));
    firsts.push_back(kEngageAtCustomSparse + group * kRowGroupPositions);
  }
  return firsts;
}

void AppendRows(AttentionRounds& exact, AttentionRounds& sparse, int32_t first, int32_t rows,
                size_t width, std::vector<RowAlarm>* out) {
  exact.Run(0, first, rows);
  sparse.Run(0, first, rows);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    out->push_back({RelativeError(exact.out().subspan(r * width, width),
                                  sparse.out().subspan(r * width, width)),
                    sparse.residuals()[r]});
  }
}

Status AddHead(const CapturedAttention& head, std::span<const int32_t> firsts,
               const KernelTable& kernels, std::vector<AlarmReport>* reports) {
  const CapturedAttention* layers[] = {&head};
  REM_ASSIGN_OR_RETURN(const CapturedPages pages,
                       CapturedPages::Store(layers, head.tokens, DType::kF32, kernels));
  REM_ASSIGN_OR_RETURN(const auto exact,
                       AttentionRounds::Make(pages, {}, kRowGroupPositions, kernels));
  const auto width = static_cast<size_t>(head.value_width);
  for (AlarmReport& report : *reports) {
    const SparseAttentionOptions options = {.engage_at = kEngageAtCustomSparse,
                                            .epsilon = report.setting.epsilon,
                                            .block_keys = report.setting.block_keys};
    REM_ASSIGN_OR_RETURN(const auto sparse,
                         AttentionRounds::Make(pages, options, kRowGroupPositions, kernels));
    for (const int32_t first : firsts) {
      if (report.decode) {
        AppendRows(*exact, *sparse,
                   first + static_cast<int32_t>(report.rows.size() % kRowGroupPositions), 1, width,
                   &report.rows);
      } else {
        AppendRows(*exact, *sparse, first, kRowGroupPositions, width, &report.rows);
      }
    }
  }
  return Status::Ok();
}

}  // namespace

double MissedAlarms(std::span<const RowAlarm> rows) {
  if (rows.empty()) return 0;
  const auto missed = std::count_if(rows.begin(), rows.end(), [](const RowAlarm& row) {
    return IsMissedAlarm(row.error, row.residual);
  });
  return static_cast<double>(missed) / static_cast<double>(rows.size());
}

std::vector<AlarmReport> OfAllLayers(std::span<const AlarmReport> reports) {
  std::vector<AlarmReport> merged;
  for (const AlarmReport& report : reports) {
    const auto same = [&](const AlarmReport& other) {
      return other.positions == report.positions && other.decode == report.decode &&
             other.setting == report.setting;
    };
    auto found = std::find_if(merged.begin(), merged.end(), same);
    if (found == merged.end()) {
      found = merged.insert(found, {-1, report.positions, report.setting, report.decode, {}});
    }
    found->rows.insert(found->rows.end(), report.rows.begin(), report.rows.end());
  }
  return merged;
}

Result<std::vector<AlarmReport>> MeasureAlarms(const CapturedAttention& layer, int32_t positions,
                                               int32_t groups,
                                               std::span<const SparseSetting> settings,
                                               const KernelTable& kernels) {
  std::vector<AlarmReport> reports;
  for (const SparseSetting& setting : settings) {
    reports.push_back({layer.layer, positions, setting, false, {}});
  }
  reports.push_back({layer.layer, positions, settings[0], true, {}});
  const std::vector<int32_t> firsts = SampledGroups(positions, groups);
  for (int32_t head = 0; head < layer.heads; ++head) {
    REM_RETURN_IF_ERROR(AddHead(PickHeads(layer, head, 1, positions), firsts, kernels, &reports));
  }
  return reports;
}

}  // namespace remontoir
