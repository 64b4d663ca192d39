// Draws are counter-based: request i is the same whatever is drawn beside it.
#include "loadgen/load_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/random.h"

namespace remontoir {
namespace {

// One stream of draws for each thing that is drawn.
enum Stream : uint64_t { kGaps = 1, kLongOnes = 2, kPrompts = 3, kOutputs = 4, kThinking = 5 };

constexpr double kMicroseconds = 1e6;
constexpr double kTimeUsMax = 1e15;  // 31 years

double ExponentialUs(double mean_seconds, double uniform) {
  return -std::log1p(-uniform) * mean_seconds * kMicroseconds;
}

int32_t DrawTokens(const TokenRange& range, const CounterRandom& random, uint64_t index) {
  const double span = static_cast<double>(range.high) - range.low + 1;
  return range.low + static_cast<int32_t>(std::floor(random.Uniform(index) * span));
}

Status CheckRange(const TokenRange& range, std::string_view name) {
  if (range.low >= 1 && range.low <= range.high && range.high <= kLoadTokensMax) {
    return Status::Ok();
  }
  return InvalidArgument(std::string(name) +
                         ": wants 1 <= LO <= HI <= " + std::to_string(kLoadTokensMax) + ", not " +
                         std::to_string(range.low) + "-" + std::to_string(range.high));
}

Status TooMany() {
  return InvalidArgument("a load holds at most " + std::to_string(kLoadRequestsMax) + " requests");
}

// Marks the exact share as long: the first ones of a shuffle.
void DrawLongOnes(double share, uint64_t seed, LoadPlan& plan) {
  const size_t count = plan.size();
  const auto wanted = static_cast<size_t>(std::llround(share * static_cast<double>(count)));
  const CounterRandom random(seed, kLongOnes);
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  for (size_t i = 0; i < wanted; ++i) {
    const auto left = static_cast<double>(count - i);
    const auto step = static_cast<size_t>(std::floor(random.Uniform(i) * left));
    std::swap(order[i], order[i + step]);
    plan[order[i]].is_long = true;
  }
}

void DrawLengths(const LoadShape& shape, uint64_t seed, LoadPlan& plan) {
  DrawLongOnes(shape.long_share, seed, plan);
  const CounterRandom prompts(seed, kPrompts);
  const CounterRandom outputs(seed, kOutputs);
  for (size_t i = 0; i < plan.size(); ++i) {
    const TokenRange& range = plan[i].is_long ? shape.long_prompt : shape.short_prompt;
    plan[i].prompt_tokens = DrawTokens(range, prompts, i);
    plan[i].output_tokens = DrawTokens(shape.output, outputs, i);
  }
}

// The next field of `line` as a whole number in [0, high].
bool TakeNumber(std::string_view& line, int64_t high, int64_t& number) {
  const size_t comma = std::min(line.find(','), line.size());
  const std::string_view field = line.substr(0, comma);
  line.remove_prefix(std::min(comma + 1, line.size()));
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc() && end == field.data() + field.size() && number >= 0 &&
         number <= high;
}

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Status BadLine(int64_t number, std::string_view what) {
  return InvalidArgument("line " + std::to_string(number) + ": " + std::string(what));
}

// Stretches to the wanted mean rate and leaves out what comes too late.
void Stretch(const TraceOptions& options, LoadPlan& plan) {
  const int64_t first_us = plan.front().time_us;
  const int64_t span_us = plan.back().time_us - first_us;
  double factor = 1;
  if (options.rate > 0 && span_us > 0) {
    const double wanted_us = static_cast<double>(plan.size() - 1) / options.rate * kMicroseconds;
    factor = wanted_us / static_cast<double>(span_us);
  }
  for (PlannedRequest& request : plan) {
    const double time_us = static_cast<double>(request.time_us - first_us) * factor;
    request.time_us = std::llround(std::min(time_us, kTimeUsMax));
  }
  if (options.seconds <= 0) return;
  const double end_us = options.seconds * kMicroseconds;
  std::erase_if(plan, [end_us](const PlannedRequest& request) {
    return static_cast<double>(request.time_us) >= end_us;
  });
}

}  // namespace

Status CheckLoadShape(const LoadShape& shape) {
  REM_RETURN_IF_ERROR(CheckRange(shape.short_prompt, "tokens of short prompts"));
  REM_RETURN_IF_ERROR(CheckRange(shape.long_prompt, "tokens of long prompts"));
  REM_RETURN_IF_ERROR(CheckRange(shape.output, "tokens of answers"));
  if (!(shape.long_share >= 0 && shape.long_share <= 1)) {
    return InvalidArgument("share of long prompts: wants 0 to 1");
  }
  return Status::Ok();
}

Result<LoadPlan> DrawOpenLoad(const LoadShape& shape, double rate, double seconds, uint64_t seed) {
  REM_RETURN_IF_ERROR(CheckLoadShape(shape));
  if (!(rate > 0) || !(seconds > 0) || !(seconds * kMicroseconds <= kTimeUsMax)) {
    return InvalidArgument("an open loop wants a rate and seconds above 0");
  }
  LoadPlan plan;
  const CounterRandom gaps(seed, kGaps);
  double time_us = 0;
  while (true) {
    time_us += ExponentialUs(1 / rate, gaps.Uniform(plan.size()));
    if (time_us >= seconds * kMicroseconds) break;
    if (static_cast<int64_t>(plan.size()) == kLoadRequestsMax) return TooMany();
    plan.push_back({.time_us = static_cast<int64_t>(time_us)});
  }
  if (plan.empty()) return InvalidArgument("no request arrives: raise the rate or the seconds");
  DrawLengths(shape, seed, plan);
  return plan;
}

Result<LoadPlan> DrawClosedLoad(const LoadShape& shape, int64_t requests, uint64_t seed) {
  REM_RETURN_IF_ERROR(CheckLoadShape(shape));
  if (requests < 1) return InvalidArgument("a closed loop wants at least 1 request");
  if (requests > kLoadRequestsMax) return TooMany();
  LoadPlan plan(static_cast<size_t>(requests));
  DrawLengths(shape, seed, plan);
  return plan;
}

Result<LoadPlan> ReadTraceLoad(std::string_view text, const TraceOptions& options) {
  constexpr std::string_view kHeader = "t_us,prompt_tokens,output_tokens";
  const std::string_view header = TakeLine(text);
  if (header != kHeader && !header.starts_with(std::string(kHeader) + ",")) {
    return BadLine(1, "the header isn't " + std::string(kHeader));
  }
  const int64_t lines_max = options.requests_max > 0
                                ? std::min(options.requests_max, kLoadRequestsMax)
                                : kLoadRequestsMax;
  LoadPlan plan;
  for (int64_t number = 2; !text.empty(); ++number) {
    std::string_view line = TakeLine(text);
    if (line.empty()) continue;
    if (static_cast<int64_t>(plan.size()) == lines_max) {
      if (options.requests_max > 0) break;
      return BadLine(number, TooMany().message());
    }
    int64_t time_us = 0, prompt = 0, output = 0;
    if (!TakeNumber(line, static_cast<int64_t>(kTimeUsMax), time_us) ||
        !TakeNumber(line, kLoadTokensMax, prompt) || !TakeNumber(line, kLoadTokensMax, output)) {
      return BadLine(number, "wants three whole numbers: " + std::string(kHeader));
    }
    if (!plan.empty() && time_us < plan.back().time_us) return BadLine(number, "time goes back");
    PlannedRequest request{.time_us = time_us};
    request.prompt_tokens = std::max(1, static_cast<int32_t>(prompt));
    request.output_tokens = std::max(1, static_cast<int32_t>(output));
    request.is_long =
        options.long_from_tokens > 0 && request.prompt_tokens >= options.long_from_tokens;
    plan.push_back(request);
  }
  if (plan.empty()) return InvalidArgument("no request in it");
  Stretch(options, plan);
  return plan;
}

int64_t ThinkUs(double mean_seconds, uint64_t seed, int64_t index) {
  if (!(mean_seconds > 0)) return 0;
  const CounterRandom random(seed, kThinking);
  const double us = ExponentialUs(mean_seconds, random.Uniform(static_cast<uint64_t>(index)));
  return static_cast<int64_t>(std::min(us, kTimeUsMax));
}

}  // namespace remontoir
