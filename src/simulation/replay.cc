// The world around the engine: who comes next, and what time it is.
#include "simulation/replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <queue>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine.h"
#include "scheduler/scheduler.h"
#include "simulation/simulated_runner.h"

namespace remontoir {
namespace {

constexpr uint64_t kThinkDraws = 201;
constexpr uint64_t kLengthDraws = 202;
constexpr int64_t kSecondUs = 1'000'000;

int64_t Us(double seconds) {
  return static_cast<int64_t>(seconds * static_cast<double>(kSecondUs));
}

// Who comes next.
class Source {
 public:
  Source(std::span<const Arrival> stream, const Clients& clients, uint64_t seed)
      : stream_(stream),
        clients_(clients),
        thinks_(seed, kThinkDraws),
        lengths_(seed, kLengthDraws) {
    const int32_t late = std::max(clients.count_late, clients.count);
    for (int32_t i = 0; i < late && clients.count > 0; ++i) {
      // Everybody begins by thinking, so that they don't come at once.
      Think(i < clients.count ? 0 : Us(clients.seconds / 2));
    }
  }

  bool closed() const { return clients_.count > 0; }

  std::optional<int64_t> NextUs() const {
    if (!closed()) {
      if (next_ == stream_.size()) return std::nullopt;
      return stream_[next_].t_us;
    }
    if (sends_.empty() || sends_.top() > Us(clients_.seconds)) return std::nullopt;
    return sends_.top();
  }

  Arrival Take() {
    if (!closed()) return stream_[next_++];
    const int64_t now = sends_.top();
    sends_.pop();
    const double place = lengths_.Uniform(next_++) * static_cast<double>(stream_.size());
    Arrival arrival = stream_[static_cast<size_t>(place)];
    arrival.t_us = now;
    return arrival;
  }

  // Somebody's answer ended, or was refused.
  void Ended(int64_t now_us) {
    if (closed()) Think(now_us);
  }

 private:
  void Think(int64_t now_us) {
    const double s = -clients_.think_s * std::log(1 - thinks_.Uniform(thoughts_++));
    sends_.push(now_us + Us(s));
  }

  const std::span<const Arrival> stream_;
  const Clients clients_;
  const CounterRandom thinks_;
  const CounterRandom lengths_;
  size_t next_ = 0;
  uint64_t thoughts_ = 0;
  // Clients are alike, so that times are all there is to keep.
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> sends_;
};

struct InFlight {
  std::shared_ptr<Generation> generation;
  int32_t record = 0;
  int64_t last_token_us = -1;
};

class World {
 public:
  World(std::span<const Arrival> stream, const ReplayOptions& options)
      : options_(options), source_(stream, options.clients, options.seed) {}

  Status Start(std::span<const Arrival> stream) {
    const Machine& machine = options_.machine;
    int32_t context = kKvPageTokens;
    for (const Arrival& arrival : stream) {
      context = std::max(context, arrival.prompt_tokens + arrival.output_tokens);
    }
    const RoundLimits limits = {.rows_max = machine.round_tokens_max,
                                .sequences_max = machine.slots,
                                .logit_rows_max = machine.slots + kChunkGrain,
                                .context_max = context};
    EngineOptions engine;
    engine.sequences_max = machine.slots;
    engine.queue_max = machine.queue_max;
    engine.round_tokens_max = machine.round_tokens_max;
    engine.bucket_capacity = machine.slots;
    engine.scheduler = options_.scheduler;
    engine.costs = machine.costs;
    engine.predictor = options_.predictor;
    engine.own_thread = false;
    runner_.emplace(limits, machine.costs, [this](int64_t us) { PassRound(us); });
    REM_ASSIGN_OR_RETURN(
        engine_, Engine::Create(*runner_, clock_, engine, machine.slots * PagesFor(context)));
    replayed_.slots = machine.slots;
    if (const auto first = source_.NextUs()) replayed_.begin_us = *first;
    return Status::Ok();
  }

  Status Play() {
    while (true) {
      const RoundEnd end = engine_->RunRound();
      Collect();
      REM_RETURN_IF_ERROR(status_);
      if (end.ran) {
        PassUntil(Now());
        continue;
      }
      std::optional<int64_t> next = source_.NextUs();
      if (end.wake.has_value()) next = std::min(next.value_or(end.wake->us), end.wake->us);
      if (!next.has_value()) break;
      // A wake-up that is due at once would stand still.
      PassUntil(std::max(*next, Now() + (end.wake.has_value() && *next <= Now() ? 1 : 0)));
    }
    if (!in_flight_.empty()) return Unavailable("the engine stopped with requests in flight");
    return Status::Ok();
  }

  Replayed Take() { return std::move(replayed_); }

 private:
  int64_t Now() const { return clock_.Now().us; }

  // Inside a round, as other threads would act: requests come while it is computed.
  void PassRound(int64_t us) {
    replayed_.rounds.push_back({.begin_us = Now(),
                                .us = static_cast<int32_t>(std::min<int64_t>(us, INT32_MAX)),
                                .occupied = engine_->stats().running});
    PassUntil(Now() + us);
  }

  void PassUntil(int64_t end_us) {
    for (auto next = source_.NextUs(); next.has_value() && *next <= end_us;
         next = source_.NextUs()) {
      if (*next > Now()) clock_.AdvanceUs(*next - Now());
      Submit(source_.Take());
    }
    if (end_us > Now()) clock_.AdvanceUs(end_us - Now());
  }

  void Submit(const Arrival& arrival) {
    Request request;
    request.prompt.assign(static_cast<size_t>(arrival.prompt_tokens), TokenId(1));
    request.max_tokens = arrival.output_tokens;
    request.sampling.temperature = 0;
    request.room.bypasses_cache = true;
    request.first_token_us_max = options_.first_token_us_max;
    InFlight flight{std::make_shared<Generation>(std::move(request), nullptr),
                    static_cast<int32_t>(replayed_.requests.size())};
    replayed_.requests.push_back({.arrived_us = Now()});
    const Status submitted = engine_->Submit(flight.generation);
    if (submitted.ok()) {
      in_flight_.push_back(std::move(flight));
      return;
    }
    replayed_.requests.back().refused = true;
    const bool full = submitted.code() == StatusCode::kResourceExhausted ||
                      submitted.code() == StatusCode::kDeadlineExceeded;
    if (!full) status_ = submitted;
    source_.Ended(Now());
  }

  void Collect() {
    std::erase_if(in_flight_, [this](InFlight& flight) { return TakeEvents(flight); });
  }

  // True when the last one was among them.
  bool TakeEvents(InFlight& flight) {
    const int64_t now = Now();
    RequestRecord& record = replayed_.requests[static_cast<size_t>(flight.record)];
    TokenEvent event;
    while (flight.generation->TryPop(event)) {
      if (event.token != kNoToken) {
        ++record.tokens;
        replayed_.end_us = now;
        if (flight.last_token_us < 0) {
          record.first_token_us = now - record.arrived_us;
          replayed_.hold_us_max =
              std::max(replayed_.hold_us_max, flight.generation->round().hold_us);
        } else {
          const int64_t gap = std::min<int64_t>(now - flight.last_token_us, INT32_MAX);
          replayed_.gaps.push_back({flight.record, static_cast<int32_t>(gap)});
        }
        flight.last_token_us = now;
      }
      if (event.finish == FinishReason::kNone) continue;
      record.ended_us = now - record.arrived_us;
      source_.Ended(now);
      return true;
    }
    return false;
  }

  const ReplayOptions options_;
  Source source_;
  ManualClock clock_;
  std::optional<SimulatedRunner> runner_;
  std::unique_ptr<Engine> engine_;
  std::vector<InFlight> in_flight_;
  Replayed replayed_;
  Status status_;  // the first that a request can't get over
};

}  // namespace

Result<Replayed> Replay(std::span<const Arrival> stream, const ReplayOptions& options) {
  if (stream.empty()) return InvalidArgument("the stream holds no request");
  World world(stream, options);
  REM_RETURN_IF_ERROR(world.Start(stream));
  REM_RETURN_IF_ERROR(world.Play());
  return world.Take();
}

}  // namespace remontoir
