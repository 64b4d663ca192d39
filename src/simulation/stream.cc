// Thinning, shortening, and a two-state Poisson process.
#include "simulation/stream.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace remontoir {
namespace {

// Streams of the counter-based generator.
constexpr uint64_t kKeepDraws = 101;
constexpr uint64_t kTimeDraws = 102;
constexpr uint64_t kPromptDraws = 103;
constexpr uint64_t kOutputDraws = 104;

constexpr std::array<std::string_view, 6> kNames = {"convC30", "convC60", "codeC30",
                                                    "convG60", "codeG30", "mmppC60"};
constexpr size_t kBurstArrivalsMax = 10'000'000;

// Above 0 and at most 1, so that its logarithm is finite.
double Positive(const CounterRandom& random, uint64_t i) { return 1 - random.Uniform(i); }

double Exponential(const CounterRandom& random, uint64_t i, double mean) {
  return -mean * std::log(Positive(random, i));
}

double Normal(const CounterRandom& random, uint64_t i) {
  return std::sqrt(-2 * std::log(Positive(random, 2 * i))) *
         std::cos(2 * std::numbers::pi * random.Uniform(2 * i + 1));
}

int32_t Tokens(double value, double min) {
  return static_cast<int32_t>(std::round(std::clamp(value, min, 1048576.0)));
}

std::vector<Arrival> Thin(const StreamRecipe& recipe, std::span<const Arrival> trace,
                          uint64_t seed) {
  const CounterRandom keeps(seed, kKeepDraws);
  std::vector<Arrival> arrivals;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (recipe.keep < 1 && keeps.Uniform(i) >= recipe.keep) continue;
    arrivals.push_back(
        {.t_us = trace[i].t_us,
         .prompt_tokens = Tokens(trace[i].prompt_tokens / recipe.prompt_divisor, 1),
         .output_tokens = Tokens(trace[i].output_tokens / recipe.output_divisor, 1)});
  }
  return arrivals;
}

std::vector<Arrival> MakeBursts(const Bursts& bursts, uint64_t seed) {
  const CounterRandom times(seed, kTimeDraws);
  const CounterRandom prompts(seed, kPromptDraws);
  const CounterRandom outputs(seed, kOutputDraws);
  // Of a lognormal value the mean is exp(mu + sigma^2 / 2).
  const double mu = std::log(bursts.prompt_mean) - 0.5 * bursts.prompt_sigma * bursts.prompt_sigma;
  std::vector<Arrival> arrivals;
  uint64_t draw = 0;
  bool burst = false;
  double state_ends = Exponential(times, draw++, bursts.calm_s_mean);
  double now = 0;
  while (arrivals.size() < kBurstArrivalsMax) {
    // An exponential gap forgets: what of it reaches past the state's end is drawn anew.
    const double next =
        now + Exponential(times, draw++, 1 / (burst ? bursts.burst_per_s : bursts.calm_per_s));
    now = std::min(next, state_ends);
    if (now >= bursts.seconds) break;
    if (next >= state_ends) {
      burst = !burst;
      state_ends =
          now + Exponential(times, draw++, burst ? bursts.burst_s_mean : bursts.calm_s_mean);
      continue;
    }
    const uint64_t i = arrivals.size();
    arrivals.push_back(
        {.t_us = static_cast<int64_t>(now * 1e6),
         .prompt_tokens = Tokens(std::exp(mu + bursts.prompt_sigma * Normal(prompts, i)), 4),
         .output_tokens = Tokens(Exponential(outputs, i, bursts.output_mean), 2)});
  }
  return arrivals;
}

}  // namespace

std::span<const std::string_view> StreamNames() { return kNames; }

Result<StreamRecipe> StreamNamed(std::string_view name) {
  if (std::ranges::find(kNames, name) == kNames.end()) {
    std::string known;
    for (const std::string_view word : kNames) known.append(" ").append(word);
    return NotFound(std::string(name) + ": is no stream:" + known + ", or a file of your own");
  }
  StreamRecipe recipe;
  recipe.name = std::string(name);
  if (name == "mmppC60") return recipe;
  const bool conv = name.starts_with("conv");
  const bool gpu = name[4] == 'G';
  recipe.trace = conv ? "azure2023_conv.csv" : "azure2023_code.csv";
  if (gpu) {
    recipe.keep = conv ? 0.60 : 1;
    REM_ASSIGN_OR_RETURN(recipe.machine, MachineNamed("gpu"));
  } else {
    recipe.keep = name == "convC30" ? 0.19 : name == "convC60" ? 0.38 : 0.40;
    recipe.prompt_divisor = 8;
    recipe.output_divisor = conv ? 4 : 2;
  }
  return recipe;
}

std::vector<Arrival> MakeStream(const StreamRecipe& recipe, std::span<const Arrival> trace,
                                uint64_t seed) {
  return recipe.trace.empty() ? MakeBursts(recipe.bursts, seed) : Thin(recipe, trace, seed);
}

std::span<const Arrival> Tail(std::span<const Arrival> arrivals, double from) {
  if (arrivals.empty()) return arrivals;
  const double span = static_cast<double>(arrivals.back().t_us - arrivals.front().t_us);
  const int64_t begin = arrivals.front().t_us + static_cast<int64_t>(from * span);
  const auto first = std::ranges::lower_bound(arrivals, begin, {}, &Arrival::t_us);
  return arrivals.subspan(static_cast<size_t>(first - arrivals.begin()));
}

}  // namespace remontoir
