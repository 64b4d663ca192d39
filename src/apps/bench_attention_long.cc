// Lists of cases, and notes of how far they are.
#include "apps/bench_attention_long.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "apps/bench_attention_heads.h"
#include "backend/sparse_layers.h"

namespace remontoir {
namespace {

constexpr SparseSetting kJudged = {16, 0.1F};
constexpr SparseSetting kSettings[] = {{16, 0.1F}, {16, 0.2F}, {32, 0.2F}, {64, 0.2F}};
constexpr SparseSetting kLongestSettings[] = {{16, 0.2F}, {32, 0.2F}, {64, 0.2F}};
constexpr SparseSetting kAlarmSettings[] = {{16, 0.1F}, {16, 0.2F}, {32, 0.2F}};
constexpr int32_t kLengths[] = {4096, 8192, 16384, 32768};
constexpr int32_t kDecodeLengths[] = {8192, 16384, 32768};
constexpr int32_t kGrowthFrom = 8192;
constexpr int32_t kGrowthTo = 32768;
constexpr float kGrowthEpsilon = 0.2F;
// Of the layers of kSparseLayers: of SmolLM2-135M, a usual head, one of the worst, a diffuse one.
constexpr int32_t kHeads[] = {4, 1, 7};
constexpr int32_t kJoinedWidthMax = 128;
constexpr int32_t kRounds = 5;
constexpr int32_t kQuickRounds = 11;
constexpr int32_t kQuickGroupRounds = 3;
constexpr int32_t kLongestRounds = 3;
constexpr int32_t kDecodeRows = 25;
constexpr int32_t kAlarmGroups = 64;

int32_t HeadOf(const CapturedAttention& layer, size_t i) {
  return std::min(kHeads[i], layer.heads - 1);
}

// The query heads that share their KV head with this one.
HeadsName GroupOf(const CapturedAttention& layer, int32_t head) {
  const int32_t shared = layer.heads_per_kv();
  return {layer.layer, head / shared * shared, shared, false, layer.key_width};
}

Status AddPrefill(const CapturedAttention& data, const HeadsName& name,
                  std::span<const int32_t> lengths, std::span<const SparseSetting> settings,
                  int32_t rounds, const KernelTable& kernels, SparseReport* report) {
  HeadsPrefill prefill = {name, {}};
  prefill.name.width = data.key_width;
  for (const int32_t length : lengths) {
    std::fprintf(stderr, "prefill of %d positions, layer %d\n", length, name.layer);
    REM_ASSIGN_OR_RETURN(std::vector<PrefillSpeed> rows,
                         MeasurePrefill(data, length, settings, rounds, kernels));
    std::move(rows.begin(), rows.end(), std::back_inserter(prefill.rows));
  }
  report->prefill.push_back(std::move(prefill));
  return Status::Ok();
}

Status AddGroupPrefill(const CapturedAttention& layer, int32_t head, int32_t rounds,
                       const KernelTable& kernels, SparseReport* report) {
  const HeadsName name = GroupOf(layer, head);
  constexpr int32_t kLength[] = {kQuickContext};
  return AddPrefill(PickHeads(layer, name.first_head, name.heads, kQuickContext), name, kLength,
                    {&kJudged, 1}, rounds, kernels, report);
}

Status AddDecode(std::span<const CapturedAttention* const> layers, ColdCaches& caches,
                 const KernelTable& kernels, SparseReport* report) {
  for (const DType type : {DType::kF32, DType::kF16}) {
    for (const int32_t length : kDecodeLengths) {
      std::fprintf(stderr, "single rows at %d\n", length);
      REM_ASSIGN_OR_RETURN(
          std::vector<DecodeSpeed> rows,
          MeasureDecode(layers, length, type, kJudged, kDecodeRows, caches, kernels));
      std::move(rows.begin(), rows.end(), std::back_inserter(report->decode));
    }
  }
  return Status::Ok();
}

}  // namespace

const PrefillSpeed* HeadsPrefill::Find(int32_t positions, const SparseSetting& setting) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const PrefillSpeed& row) {
    return row.positions == positions && row.setting == setting;
  });
  return found == rows.end() ? nullptr : &*found;
}

std::optional<Growth> GrowthOf(const HeadsPrefill& prefill) {
  const PrefillSpeed* from = prefill.Find(kGrowthFrom, {16, kGrowthEpsilon});
  const PrefillSpeed* to = prefill.Find(kGrowthTo, {16, kGrowthEpsilon});
  const PrefillSpeed* to_coarse = prefill.Find(kGrowthTo, {32, kGrowthEpsilon});
  if (from == nullptr || to == nullptr || to_coarse == nullptr) return std::nullopt;
  const auto exponent = [](double seconds_from, double seconds_to) {
    return GrowthExponent(kGrowthFrom, seconds_from, kGrowthTo, seconds_to);
  };
  return Growth{prefill.name, exponent(from->exact_seconds, to->exact_seconds),
                exponent(from->sparse_seconds, to->sparse_seconds),
                exponent(from->sparse_seconds, to_coarse->sparse_seconds)};
}

const PrefillSpeed* SparseReport::Judged() const {
  if (prefill.empty()) return nullptr;
  return prefill.front().Find(kQuickContext, kJudged);
}

Result<SparseReport> MeasureSparseQuick(const CapturedAttention& layer,
                                        const KernelTable& kernels) {
  SparseReport report;
  if (!MayBeSparse(layer.traits())) return report;
  const int32_t head = HeadOf(layer, 0);
  constexpr int32_t kLength[] = {kQuickContext};
  REM_RETURN_IF_ERROR(AddPrefill(PickHeads(layer, head, 1, kQuickContext), {layer.layer, head},
                                 kLength, {&kJudged, 1}, kQuickRounds, kernels, &report));
  REM_RETURN_IF_ERROR(AddGroupPrefill(layer, head, kQuickGroupRounds, kernels, &report));
  return report;
}

Result<SparseReport> MeasureSparse(std::span<const CapturedAttention> layers,
                                   const KernelTable& kernels) {
  SparseReport report;
  std::vector<CapturedAttention> heads;
  std::vector<const CapturedAttention*> whole, alone;
  for (size_t i = 0; i < layers.size(); ++i) {
    const CapturedAttention& layer = layers[i];
    if (!MayBeSparse(layer.traits())) continue;
    const int32_t head = HeadOf(layer, i);
    whole.push_back(&layer);
    heads.push_back(PickHeads(layer, head, 1, kLongContext));
    REM_RETURN_IF_ERROR(AddPrefill(heads.back(), {layer.layer, head}, kLengths, kSettings, kRounds,
                                   kernels, &report));
  }
  if (whole.empty()) return report;
  for (const CapturedAttention& head : heads) alone.push_back(&head);
  const CapturedAttention& first = *whole.front();
  const int32_t head = report.prefill.front().name.first_head;
  REM_RETURN_IF_ERROR(AddGroupPrefill(first, head, kRounds, kernels, &report));
  if (2 * std::max(first.key_width, first.value_width) <= kJoinedWidthMax && first.heads > 1) {
    const int32_t one = std::min(head, first.heads - 2);
    REM_RETURN_IF_ERROR(AddPrefill(JoinTwoHeads(first, one, one + 1, kLongContext),
                                   {first.layer, one, 1, true}, kLengths, kSettings, kRounds,
                                   kernels, &report));
  }
  REM_ASSIGN_OR_RETURN(ColdCaches caches, ColdCaches::Make());
  REM_RETURN_IF_ERROR(AddDecode(alone, caches, kernels, &report));
  REM_RETURN_IF_ERROR(AddDecode(whole, caches, kernels, &report));
  for (const CapturedAttention* layer : whole) {
    std::fprintf(stderr, "residuals of sampled rows, layer %d\n", layer->layer);
    REM_ASSIGN_OR_RETURN(
        std::vector<AlarmReport> rows,
        MeasureAlarms(*layer, kLongContext, kAlarmGroups, kAlarmSettings, kernels));
    std::move(rows.begin(), rows.end(), std::back_inserter(report.alarms));
  }
  return report;
}

Status AddLongest(const CapturedAttention& layer, const KernelTable& kernels,
                  SparseReport* report) {
  if (!MayBeSparse(layer.traits())) return Status::Ok();
  const int32_t head = HeadOf(layer, 0);
  constexpr int32_t kLength[] = {kLongestContext};
  return AddPrefill(PickHeads(layer, head, 1, kLongestContext), {layer.layer, head}, kLength,
                    kLongestSettings, kLongestRounds, kernels, report);
}

}  // namespace remontoir
