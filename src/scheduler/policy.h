// How rounds are chosen: the policies and their numbers, as plain data.
#pragma once

#include <cstdint>
#include <string_view>

namespace remontoir {

enum class SchedulingPolicy : uint8_t {
  kAdaptive,   // a window that follows state and forecast, shortest prefill first, batches cut
  kFixed,      // requests are held for the gate, then like kImmediate in its own window
  kImmediate,  // in order of arrival, one window, nothing waits
  kLegacy,     // the gate, then a batch that runs to completion before the next one starts
};

// Whether it holds requests back on purpose.
inline constexpr bool HasGate(SchedulingPolicy policy) {
  return policy == SchedulingPolicy::kFixed || policy == SchedulingPolicy::kLegacy;
}

// "adaptive", "fixed", "immediate", "legacy"
std::string_view Name(SchedulingPolicy policy);

enum class SchedulingOrder : uint8_t {
  kArrival,   // first come, first served
  kShortest,  // shortest remaining prefill first, with ageing
};

struct SchedulerOptions {
  SchedulingPolicy policy = SchedulingPolicy::kImmediate;
  // Of kAdaptive; the others keep to arrival.
  SchedulingOrder order = SchedulingOrder::kShortest;
  int64_t window_us_min = 50'000;  // of kAdaptive
  int64_t window_us_max = 120'000;
  double stall_weight = 0.3;     // per second: what a running sequence's stall weighs (kappa)
  double forecast_weight = 0.3;  // what expected arrivals weigh (omega); 0: state only
  double ageing = 4;             // a second of waiting counts like 1/ageing less of prefill
};

// What `fixed` and `legacy` wait for: so long since the first who waits, or so many.
inline constexpr int64_t kGateUs = 200'000;
inline constexpr int32_t kGateSequences = 8;
inline constexpr int64_t kFixedWindowUs = 100'000;
inline constexpr int64_t kImmediateWindowUs = 120'000;

// Priorities: lower runs first. Anybody who has waited for kStarvationUs counts as the first.
inline constexpr int32_t kPriorityMin = -100;
inline constexpr int32_t kPriorityMax = 100;
inline constexpr int64_t kStarvationUs = 10'000'000;

}  // namespace remontoir
