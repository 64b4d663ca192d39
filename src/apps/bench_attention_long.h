// Which layers, heads and lengths the sparse part of `bench attention` measures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/bench_attention_alarm.h"
#include "apps/bench_attention_decode.h"
#include "apps/bench_attention_sparse.h"
#include "base/status.h"
#include "eval/attention_capture.h"
#include "kernels/kernel_table.h"

namespace remontoir {

inline constexpr int32_t kLongContext = 32768;
inline constexpr int32_t kLongestContext = 65536;
inline constexpr int32_t kQuickContext = 16384;
// The layers whose heads are measured, the one of the judged figures first.
inline constexpr int32_t kSparseLayers[] = {5, 9, 2};

// Some query heads of one KV head, or two heads joined to one.
struct HeadsName {
  int32_t layer = 0;
  int32_t first_head = 0;
  int32_t heads = 1;
  bool joined = false;  // first_head and the next, each with its KV head, as one
  int32_t width = 0;
};

struct HeadsPrefill {
  HeadsName name;
  std::vector<PrefillSpeed> rows;

  // Null: not measured.
  const PrefillSpeed* Find(int32_t positions, const SparseSetting& setting) const;
};

// How time grows from 8,192 positions to 32,768, epsilon 0.2.
struct Growth {
  HeadsName name;
  double exact = 0;
  double blocks_of_16 = 0;
  double blocks_16_to_32 = 0;  // of 16 keys at the shorter length, of 32 at the longer one
};
// Nothing where a length wasn't measured.
std::optional<Growth> GrowthOf(const HeadsPrefill& prefill);

struct SparseReport {
  std::vector<HeadsPrefill> prefill;
  std::vector<DecodeSpeed> decode;
  std::vector<AlarmReport> alarms;

  // Epsilon 0.1 and blocks of 16 keys at 16,384 positions, of the first head of prefill; null: not
  // measured.
  const PrefillSpeed* Judged() const;
};

// Layers that stay exact are left out.
// Of one layer, 16,384 positions: a head, and the query heads that share its KV head.
Result<SparseReport> MeasureSparseQuick(const CapturedAttention& layer, const KernelTable& kernels);
// Of the layers, 32,768 positions: everything.
Result<SparseReport> MeasureSparse(std::span<const CapturedAttention> layers,
                                   const KernelTable& kernels);
// Of one layer, 65,536 positions: added to the report's prefills.
Status AddLongest(const CapturedAttention& layer, const KernelTable& kernels, SparseReport* report);

}  // namespace remontoir
