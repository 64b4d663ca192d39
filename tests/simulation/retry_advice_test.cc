// Whether advice to a refused request is good: the load is replayed and the retry comes at half and
// at twice of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "simulation/arrival.h"
#include "simulation/simulated_runner.h"

namespace remontoir {
namespace {

constexpr int64_t kAdviceUsMin = 300'000;  // between them the server passes advice on as it is
constexpr int64_t kAdviceUsMax = 120'000'000;

// A request with a deadline that comes while others run.
struct Probe {
  int64_t at_us = 0;
  int32_t prompt_tokens = 0;
  int64_t first_token_us_max = 0;
};

// An engine under a load, stopped at any time.
class Replayed {
 public:
  Replayed(const std::vector<Arrival>& load, SchedulingPolicy policy)
      : runner_({512, 8, 64, 8192}, CostModel{}, [this](int64_t us) { clock_.AdvanceUs(us); }),
        load_(load) {
    EngineOptions options = {.sequences_max = 8, .queue_max = 256, .own_thread = false};
    options.scheduler.policy = policy;
    auto created = Engine::Create(runner_, clock_, options, 2048);
    EXPECT_TRUE(created.ok()) << created.status().message();
    engine_ = std::move(created).value();
  }
  ~Replayed() { engine_.reset(); }

  // Until a round ends at or after us; everything that came by then is with the engine.
  void PlayUntil(int64_t us) {
    for (;;) {
      while (next_ < load_.size() && load_[next_].t_us <= std::min(clock_.Now().us, us)) {
        auto taken = Ask(load_[next_].prompt_tokens, load_[next_].output_tokens, 0);
        EXPECT_TRUE(taken.second.ok()) << taken.second.message();
        running_.push_back(std::move(taken.first));
        ++next_;
      }
      if (clock_.Now().us >= us) return;
      const bool ran = engine_->RunRound().ran;
      Drain();
      if (ran) continue;
      const int64_t next_us = next_ < load_.size() ? std::min(load_[next_].t_us, us) : us;
      clock_.AdvanceUs(std::max<int64_t>(next_us - clock_.Now().us, 1));
    }
  }

  std::pair<std::shared_ptr<Generation>, Status> Ask(int32_t prompt, int32_t output,
                                                     int64_t first_token_us_max) {
    Request request;
    request.prompt.assign(static_cast<size_t>(prompt), TokenId(1));
    request.max_tokens = output;
    request.ignore_eos = true;
    request.room.bypasses_cache = true;
    request.first_token_us_max = first_token_us_max;
    auto generation = std::make_shared<Generation>(std::move(request), nullptr);
    Status status = engine_->Submit(generation);
    return {std::move(generation), std::move(status)};
  }

  bool Admits(const Probe& probe, int64_t at_us) {
    PlayUntil(at_us);
    return Ask(probe.prompt_tokens, 20, probe.first_token_us_max).second.ok();
  }

  int64_t now_us() const { return clock_.Now().us; }

 private:
  void Drain() {
    std::erase_if(running_, [](const std::shared_ptr<Generation>& generation) {
      TokenEvent event;
      while (generation->TryPop(event)) {
        if (event.finish != FinishReason::kNone) return true;
      }
      return false;
    });
  }

  ManualClock clock_;
  SimulatedRunner runner_;
  const std::vector<Arrival> load_;
  std::unique_ptr<Engine> engine_;
  size_t next_ = 0;
  std::vector<std::shared_ptr<Generation>> running_;
};

// Requests at random until the probe comes, one in seven of them long.
std::vector<Arrival> LoadOf(uint64_t seed, const Probe& probe) {
  const CounterRandom random(seed, 1);
  const double per_s = 1.5 + 0.5 * static_cast<double>(seed % 3);
  std::vector<Arrival> load;
  double us = 0;
  for (uint64_t i = 0;; ++i) {
    us += -std::log(1 - random.Uniform(4 * i)) / per_s * 1e6;
    if (us > static_cast<double>(probe.at_us)) return load;
    const double share = random.Uniform(4 * i + 2);
    const int prompt = random.Uniform(4 * i + 1) < 0.15 ? 600 + static_cast<int>(share * 1400)
                                                        : 10 + static_cast<int>(share * 150);
    const int output = 5 + static_cast<int>(random.Uniform(4 * i + 3) * 60);
    load.push_back({static_cast<int64_t>(us), prompt, output});
  }
}

Probe ProbeOf(uint64_t seed) {
  const CounterRandom random(seed, 2);
  return {.at_us = static_cast<int64_t>((20 + random.Uniform(0) * 20) * 1e6),
          .prompt_tokens = 20 + static_cast<int32_t>(random.Uniform(1) * 200),
          .first_token_us_max = static_cast<int64_t>((0.3 + random.Uniform(2) * 1.5) * 1e6)};
}

TEST(RetryAdvice, HoldsAtTwiceAndNotAtHalfInNineOfTenCases) {
  int cases = 0;
  int twice = 0;
  int half = 0;
  for (uint64_t seed = 1; cases < 120 && seed < 1000; ++seed) {
    const Probe probe = ProbeOf(seed);
    const std::vector<Arrival> load = LoadOf(seed, probe);
    const auto policy = seed % 2 == 0 ? SchedulingPolicy::kAdaptive : SchedulingPolicy::kImmediate;
    Replayed first(load, policy);
    first.PlayUntil(probe.at_us);
    const int64_t refused_us = first.now_us();
    const auto [refused, status] = first.Ask(probe.prompt_tokens, 20, probe.first_token_us_max);
    if (status.code() != StatusCode::kDeadlineExceeded) continue;
    const int64_t advice_us = refused->admission().retry_us;
    if (advice_us <= kAdviceUsMin || advice_us >= kAdviceUsMax) continue;
    ++cases;
    Replayed later(load, policy);
    twice += later.Admits(probe, refused_us + 2 * advice_us) ? 1 : 0;
    Replayed sooner(load, policy);
    half += sooner.Admits(probe, refused_us + advice_us / 2) ? 0 : 1;
  }
  ASSERT_EQ(cases, 120);
  EXPECT_GE(twice, cases * 9 / 10) << "a retry at twice the advice";
  EXPECT_GE(half, cases * 9 / 10) << "a retry at half of it";
  RecordProperty("twice", twice);
  RecordProperty("half", half);
}

}  // namespace
}  // namespace remontoir
