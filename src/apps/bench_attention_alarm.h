// Whether a row's residual says what its error is: false alarms aside, how often is it too small?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/bench_attention_sparse.h"
#include "base/status.h"
#include "eval/attention_capture.h"
#include "kernels/kernel_table.h"

namespace remontoir {

struct RowAlarm {
  double error = 0;  // |sparse - exact| / |exact|
  double residual = 0;
};

// Rows with a missed alarm (eval/row_error.h), as a part; 0 of none.
double MissedAlarms(std::span<const RowAlarm> rows);

// Of all heads of one layer.
struct AlarmReport {
  int32_t layer = 0;
  int32_t positions = 0;
  SparseSetting setting;
  bool decode = false;  // rows alone; else in their groups of 8 positions
  std::vector<RowAlarm> rows;
};

// The reports of all layers as one for each setting, in the order in which they come: their rows
// together, of layer -1.
std::vector<AlarmReport> OfAllLayers(std::span<const AlarmReport> reports);

// Sampled rows of a prefill of this many positions: so many row groups, evenly over the positions
// that are sparse, in every head; and of decode a row of each group, with the first setting.
Result<std::vector<AlarmReport>> MeasureAlarms(const CapturedAttention& layer, int32_t positions,
                                               int32_t groups,
                                               std::span<const SparseSetting> settings,
                                               const KernelTable& kernels);

}  // namespace remontoir
