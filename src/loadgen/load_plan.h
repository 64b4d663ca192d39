// What a load asks for and when, drawn in advance: arrivals and lengths are a function of the seed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

// Requests that one load may hold.
inline constexpr int64_t kLoadRequestsMax = 1'000'000;
// Tokens that one prompt or one answer may be asked to have.
inline constexpr int32_t kLoadTokensMax = 1 << 20;

struct TokenRange {
  int32_t low = 0;
  int32_t high = 0;  // included
};

// How long prompts and answers are; every length of a range is as likely as the others.
struct LoadShape {
  TokenRange short_prompt{20, 60};
  TokenRange long_prompt{1500, 1500};
  TokenRange output{32, 96};
  double long_share = 0.15;  // exactly this share of the requests, to the nearest whole one
};

struct PlannedRequest {
  int64_t time_us = 0;  // after the load's start; 0 in a closed loop, whose clients decide
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  bool is_long = false;
};

using LoadPlan = std::vector<PlannedRequest>;  // sorted by time

// Errors name the range or the share.
Status CheckLoadShape(const LoadShape& shape);

// Open loop: exponential gaps of `rate` requests a second for `seconds`, both above 0. An error
// when none or more than kLoadRequestsMax would arrive.
Result<LoadPlan> DrawOpenLoad(const LoadShape& shape, double rate, double seconds, uint64_t seed);

// Closed loop: the lengths of that many requests, in the order in which clients take them.
Result<LoadPlan> DrawClosedLoad(const LoadShape& shape, int64_t requests, uint64_t seed);

struct TraceOptions {
  double rate = 0;               // > 0: times are stretched to this mean rate
  double seconds = 0;            // > 0: what arrives later, after stretching, is left out
  int64_t requests_max = 0;      // > 0: so many lines at most
  int32_t long_from_tokens = 0;  // prompts of at least so many tokens count as long; 0: none does
};

// Open loop from a recorded trace: a header `t_us,prompt_tokens,output_tokens` (further columns are
// ignored), then sorted lines of whole numbers. The first arrival is at 0. Errors name the line.
Result<LoadPlan> ReadTraceLoad(std::string_view text, const TraceOptions& options);

// A client's pause before request `index`, exponential with this mean, in microseconds.
int64_t ThinkUs(double mean_seconds, uint64_t seed, int64_t index);

}  // namespace remontoir
