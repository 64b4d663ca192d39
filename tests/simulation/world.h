// A world of clients that arrive, flood, stall and cancel by seed, around an engine whose clock it
// moves; every step is checked.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/unit/engine/engine_fixture.h"

namespace remontoir {

// Draws one after the other.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t stream) : random_(seed, stream) {}
  double Uniform() { return random_.Uniform(next_++); }
  bool Chance(double probability) { return Uniform() < probability; }
  // low ... high
  int32_t Int(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(Uniform() * (high - low + 1));
  }
  double Exponential(double mean);

 private:
  const CounterRandom random_;
  uint64_t next_ = 0;
};

// What a world is like, by its seed.
struct WorldPlan {
  EngineCase engine;
  double gap_us_mean = 0;  // between arrivals
  double flood_share = 0;  // of arrivals that bring many others with them
  bool caching = false;    // some prompts begin alike
  bool priorities = false;
  bool growing = false;       // some rooms grow, so that what is free isn't known from outside
  bool alone = false;         // some want to be alone
  bool long_answers = false;  // some answers are longer than their pipe, and stop when it is full
  bool ends_by_shutdown = false;
  bool sparse = false;  // some prompts are long enough for sparse attention
};

WorldPlan PlanOf(uint64_t seed);

class World {
 public:
  World(uint64_t seed, int32_t requests);

  // Until everybody has gone, or the first failure.
  void Play();

  int32_t requests() const { return requests_; }
  int64_t finished() const { return finished_; }
  int64_t cancelled() const { return cancelled_; }
  int64_t refused() const { return refused_; }
  int64_t stalled() const { return stalled_; }
  int64_t seals() const { return seals_; }

 private:
  struct Client {
    std::shared_ptr<Generation> generation;
    std::vector<TokenEvent> events;
    int64_t arrived_us = 0;
    int32_t pages = 0;   // of its room, at most
    int64_t tokens = 0;  // positions that its room has to hold
    int64_t reads_from_us = 0;
    bool cancelled = false;
    bool cancel_due = false;  // before the round began
    bool joined = false;
  };
  enum class Happening : uint8_t { kArrival, kCancel, kRead };
  struct Event {
    int64_t at_us = 0;
    int64_t number = 0;  // so that order never depends on the queue
    Happening happening = Happening::kArrival;
    int32_t client = -1;
    bool operator>(const Event& other) const {
      return at_us != other.at_us ? at_us > other.at_us : number > other.number;
    }
  };

  int64_t Now() const { return clock_.Now().us; }
  void Plan(int64_t at_us, Happening happening, int32_t client = -1);
  void PassUntil(int64_t end_us);
  void Happen(const Event& event);
  void Arrive();
  Request DrawRequest();
  void Submit(Request request);
  void OnRun(std::span<const BatchSequence> batch);
  void Step();
  void ReadAll();
  // True when its last event came.
  bool Read(Client& client);
  void CheckAnswer(const Client& client);
  void CheckNobodyWaits();
  void CheckWhoJoins();
  bool RoomIsFree(const Client& client, const EngineStats& stats) const;
  void CheckSealing(std::span<const BatchSequence> batch, const RoundWork& work);
  void CheckMemory();
  void CheckEnd();

  const int32_t requests_;
  const WorldPlan plan_;
  Dice dice_;
  ManualClock clock_;
  FakeModelRunner runner_;
  std::unique_ptr<Engine> engine_;
  std::vector<Client> clients_;
  std::vector<int32_t> in_flight_;  // in order of arrival
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t event_count_ = 0;
  int32_t arrivals_left_ = 0;
  bool down_ = false;

  int64_t round_began_us_ = 0;
  bool ran_batch_ = false;
  int64_t allocations_of_others_ = 0;  // in this round
  int64_t rounds_ = 0;
  int64_t work_ = 0;  // tokens asked for, a bound on rounds

  int64_t finished_ = 0;
  int64_t cancelled_ = 0;
  int64_t refused_ = 0;
  int64_t stalled_ = 0;
  int64_t seals_ = 0;
  int64_t tokens_ = 0;  // drawn, as clients saw them
};

}  // namespace remontoir
