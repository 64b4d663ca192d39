// Worlds of clients by seed: no token lost or doubled, nobody waits beside free room, memory comes
// back, a drain ends.
#include "tests/simulation/world.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/thread_counters.h"
#include "scheduler/policy.h"
#include "scheduler/scheduler.h"

namespace remontoir {
namespace {

constexpr int32_t kContext = 256;
constexpr int32_t kLongContext = 1280;
constexpr int32_t kSparseContext = 2560;
constexpr int32_t kSparseFrom = 1216;
constexpr int64_t kMs = 1000;

int64_t Allocations() { return HeapAllocationsOfThread().value_or(0); }

RoundWork WorkOfBatch(std::span<const BatchSequence> batch) {
  RoundWork work;
  for (const BatchSequence& sequence : batch) {
    work.seals += sequence.seals.value_or(SealRange{}).count();
    if (sequence.tokens.empty()) continue;
    if (sequence.tokens.size() == 1) {
      work.AddDecode(sequence.first_position + 1);
    } else {
      work.AddPrefill(static_cast<int64_t>(sequence.tokens.size()), sequence.first_position);
    }
  }
  return work;
}

}  // namespace

double Dice::Exponential(double mean) { return -mean * std::log(1 - Uniform()); }

WorldPlan PlanOf(uint64_t seed) {
  constexpr SchedulingPolicy kPolicies[] = {
      SchedulingPolicy::kAdaptive, SchedulingPolicy::kImmediate, SchedulingPolicy::kFixed,
      SchedulingPolicy::kAdaptive, SchedulingPolicy::kImmediate, SchedulingPolicy::kLegacy};
  Dice dice(seed, 1);
  WorldPlan plan;
  EngineOptions& options = plan.engine.options;
  RoundLimits& limits = plan.engine.limits;
  options.own_thread = false;
  options.scheduler.policy = kPolicies[seed % std::size(kPolicies)];
  if (dice.Chance(0.25)) options.scheduler.order = SchedulingOrder::kArrival;
  options.sequences_max = dice.Int(1, 6);
  options.queue_max = dice.Int(4, 48);
  options.reserve_tokens_default = dice.Int(8, 64);
  options.round_tokens_max = options.sequences_max - 1 + kChunkGrain + dice.Int(0, 56);
  options.costs = {2000, 300, 500, 1, 0.1, 5000};
  plan.long_answers = seed % 10 == 0;
  plan.sparse = seed % 10 == 5;
  limits.context_max = plan.long_answers ? kLongContext : plan.sparse ? kSparseContext : kContext;
  limits.rows_max = options.round_tokens_max;
  limits.sequences_max = options.sequences_max;
  limits.logit_rows_max = options.sequences_max - 1 + kChunkGrain;
  plan.engine.page_count = PagesFor(limits.context_max) + dice.Int(0, 12);
  if (dice.Chance(0.4)) {
    options.bucket_tokens = {64, 128, limits.context_max};
    options.bucket_capacity = dice.Int(1, 3);
  }
  plan.gap_us_mean = static_cast<double>(dice.Int(8, 80) * kMs);
  plan.flood_share = dice.Chance(0.5) ? 0.02 : 0;
  plan.caching = dice.Chance(0.5);
  plan.priorities = options.scheduler.policy == SchedulingPolicy::kAdaptive && dice.Chance(0.5);
  plan.growing = dice.Chance(0.3);
  plan.alone = dice.Chance(0.2);
  plan.ends_by_shutdown = dice.Chance(0.2);
  if (plan.sparse) limits.sparse = {.engage_at = kSparseFrom, .segments = dice.Int(3, 6)};
  return plan;
}

World::World(uint64_t seed, int32_t requests)
    : requests_(requests),
      plan_(PlanOf(seed)),
      dice_(seed, 2),
      runner_(plan_.engine.limits, plan_.engine.page_count),
      arrivals_left_(requests) {
  runner_.on_run = [this](std::span<const BatchSequence> batch) { OnRun(batch); };
  auto created = Engine::Create(runner_, clock_, plan_.engine.options, plan_.engine.page_count);
  EXPECT_TRUE(created.ok()) << created.status().message();
  engine_ = std::move(created).value();
  clients_.reserve(static_cast<size_t>(requests));
  Plan(0, Happening::kArrival);
}

void World::Plan(int64_t at_us, Happening happening, int32_t client) {
  events_.push({at_us, event_count_++, happening, client});
}

void World::PassUntil(int64_t end_us) {
  while (!events_.empty() && events_.top().at_us <= end_us) {
    const Event event = events_.top();
    events_.pop();
    if (event.at_us > Now()) clock_.AdvanceUs(event.at_us - Now());
    Happen(event);
  }
  if (end_us > Now()) clock_.AdvanceUs(end_us - Now());
}

void World::Happen(const Event& event) {
  if (event.happening == Happening::kArrival) {
    Arrive();
    return;
  }
  Client& client = clients_[static_cast<size_t>(event.client)];
  if (client.generation == nullptr) return;  // it has gone
  if (event.happening == Happening::kCancel) {
    client.generation->Cancel();
    client.cancelled = true;
  } else if (Read(client)) {
    std::erase(in_flight_, event.client);
  }
}

void World::Arrive() {
  const int32_t others = dice_.Chance(plan_.flood_share) ? dice_.Int(10, 60) : 0;
  for (int32_t i = 0; i <= others && arrivals_left_ > 0; ++i) {
    --arrivals_left_;
    Submit(DrawRequest());
  }
  if (arrivals_left_ > 0) {
    Plan(Now() + static_cast<int64_t>(dice_.Exponential(plan_.gap_us_mean)), Happening::kArrival);
  }
}

Request World::DrawRequest() {
  const bool is_long = plan_.long_answers && dice_.Chance(0.01);
  const uint64_t prefix =
      plan_.caching && dice_.Chance(0.5) ? dice_.Int(0, 3) : dice_.Int(9, 1 << 30);
  int32_t prompt = dice_.Chance(0.1) ? dice_.Int(80, 200) : dice_.Int(1, 60);
  // Some end before their first sparse row, and leave pages without segments.
  if (plan_.sparse && dice_.Chance(0.2)) prompt = dice_.Int(1000, 2400);
  const int32_t answer = is_long ? dice_.Int(1030, kLongContext - 210) : dice_.Int(1, 40);
  Request request = RequestOf(prompt, answer, prefix);
  request.sampling.seed = dice_.Int(0, 1 << 30);
  request.room.bypasses_cache = !plan_.caching;
  if (!is_long && dice_.Chance(0.05)) {
    request.kind = RequestKind::kScore;
    request.max_tokens = dice_.Int(0, 3);
  }
  if (plan_.growing && dice_.Chance(0.2)) {
    request.max_tokens = -1;
    request.stop_tokens = Tokens({1, 2, 3});
  }
  if (plan_.growing && dice_.Chance(0.2)) request.room.context_hint = dice_.Int(1, 128);
  if (plan_.priorities && dice_.Chance(0.3)) {
    request.priority = dice_.Int(kPriorityMin, kPriorityMax);
  }
  if (plan_.alone && dice_.Chance(0.1)) request.alone = true;
  if (dice_.Chance(0.1)) request.first_token_us_max = dice_.Int(50, 500) * kMs;
  return request;
}

void World::Submit(Request request) {
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  const int32_t answer =
      request.max_tokens >= 0 ? request.max_tokens : plan_.engine.options.reserve_tokens_default;
  const int64_t tokens =
      std::min<int64_t>(int64_t{prompt} + answer, plan_.engine.limits.context_max);
  const int32_t work = prompt + (request.max_tokens >= 0 ? answer : kContext);
  Client client;
  client.generation = std::make_shared<Generation>(std::move(request), nullptr);
  client.arrived_us = Now();
  client.pages = PagesFor(tokens);
  client.tokens = tokens;
  const Status submitted = engine_->Submit(client.generation);
  if (!submitted.ok()) {
    ++refused_;
    if (submitted.code() == StatusCode::kDeadlineExceeded) {
      EXPECT_GT(client.generation->admission().retry_us, 0);
    } else {
      EXPECT_EQ(submitted.code(), StatusCode::kResourceExhausted) << submitted.message();
      EXPECT_EQ(engine_->stats().waiting, plan_.engine.options.queue_max);
    }
    return;
  }
  work_ += work;
  if (plan_.sparse) work_ += SealsDue(static_cast<int32_t>(tokens), kFakeLayers);
  const auto number = static_cast<int32_t>(clients_.size());
  const bool is_long = client.generation->request().max_tokens > 1000;
  if (is_long || dice_.Chance(0.2)) {
    client.reads_from_us = Now() + (is_long ? dice_.Int(3000, 20'000) : dice_.Int(50, 3000)) * kMs;
    Plan(client.reads_from_us, Happening::kRead, number);
  }
  if (dice_.Chance(0.15)) Plan(Now() + dice_.Int(0, 400) * kMs, Happening::kCancel, number);
  clients_.push_back(std::move(client));
  in_flight_.push_back(number);
}

// On the engine's thread while a round is computed: time passes, others act.
void World::OnRun(std::span<const BatchSequence> batch) {
  const int64_t before = Allocations();
  ran_batch_ = true;
  CheckNobodyWaits();
  const RoundWork work = WorkOfBatch(batch);
  const double us = plan_.engine.options.costs.PredictUs(work);
  CheckSealing(batch, work);
  PassUntil(Now() + std::llround(us));
  allocations_of_others_ = Allocations() - before;
}

void World::Play() {
  while (!::testing::Test::HasFailure()) {
    if (plan_.ends_by_shutdown && arrivals_left_ < requests_ / 4) {
      engine_->Shutdown();
      down_ = true;
      for (const int32_t i : in_flight_) {
        EXPECT_TRUE(Read(clients_[static_cast<size_t>(i)])) << "left behind by the shutdown";
      }
      in_flight_.clear();
      break;
    }
    for (const int32_t i : in_flight_) {
      Client& client = clients_[static_cast<size_t>(i)];
      client.cancel_due = client.cancelled;
    }
    round_began_us_ = Now();
    ran_batch_ = false;
    allocations_of_others_ = 0;
    const int64_t before = Allocations();
    const RoundEnd end = engine_->RunRound();
    const int64_t allocations = Allocations() - before - allocations_of_others_;
    EXPECT_TRUE(rounds_ == 0 || allocations == 0) << allocations << " allocations in a round";
    if (!ran_batch_) CheckNobodyWaits();
    ReadAll();
    CheckMemory();
    if (end.ran) {
      // Each computes a token or lets somebody join.
      EXPECT_LE(++rounds_, work_ + requests_ + 1) << "rounds without an end";
      continue;
    }
    if (events_.empty() && !end.wake.has_value()) break;
    int64_t next = events_.empty() ? end.wake->us : events_.top().at_us;
    if (end.wake.has_value()) next = std::min(next, end.wake->us);
    EXPECT_TRUE(!end.wake.has_value() || end.wake->us > Now()) << "a wake-up in the past";
    PassUntil(next);
  }
  CheckEnd();
}

void World::ReadAll() {
  std::erase_if(in_flight_, [this](int32_t i) {
    Client& client = clients_[static_cast<size_t>(i)];
    const bool reads = client.cancel_due || Now() >= client.reads_from_us;
    if (reads && Read(client)) return true;
    EXPECT_FALSE(client.cancel_due) << "a cancelled sequence outlived a round";
    return false;
  });
}

bool World::Read(Client& client) {
  TokenEvent event;
  const size_t before = client.events.size();
  while (client.generation->TryPop(event)) {
    client.events.push_back(event);
    if (event.token != kNoToken && !event.is_prompt) ++tokens_;
    if (event.finish == FinishReason::kNone) continue;
    CheckAnswer(client);
    client.generation.reset();
    client.events = {};
    return true;
  }
  if (client.events.size() - before >= Generation::kEventsMax - 1) ++stalled_;
  return false;
}

void World::CheckAnswer(const Client& client) {
  const TokenEvent& last = client.events.back();
  (last.finish == FinishReason::kCancelled ? cancelled_ : finished_) += 1;
  const std::vector<TokenEvent> expected =
      ExpectedEvents(client.generation->request(), plan_.engine.limits.context_max);
  if (last.finish == FinishReason::kCancelled) {
    EXPECT_TRUE(client.cancelled || down_) << "cancelled by nobody";
    EXPECT_EQ(last.token, kNoToken);
  } else if (last.detail != StopDetail::kKvRoom) {
    EXPECT_EQ(client.events.size(), expected.size());
    EXPECT_TRUE(last == expected.back());
  }
  // All but the last, which may end the answer earlier.
  ASSERT_LE(client.events.size() - 1, expected.size());
  for (size_t i = 0; i + 1 < client.events.size(); ++i) {
    ASSERT_TRUE(client.events[i] == expected[i]) << "token " << i << " of " << expected.size();
  }
}

bool World::RoomIsFree(const Client& client, const EngineStats& stats) const {
  // A page that two computed alike may be held once more than the engine's last account says.
  const int32_t unsure = plan_.caching ? 4 * plan_.engine.options.sequences_max : 0;
  if (client.pages + unsure > stats.kv_pages_unheld()) return false;
  std::vector<int32_t> classes = plan_.engine.options.bucket_tokens;
  if (classes.empty()) return true;  // one class with a place for every slot
  for (const int32_t tokens : classes) {
    if (tokens < client.tokens) continue;
    const auto taken = std::ranges::count_if(in_flight_, [&](int32_t i) {
      return clients_[static_cast<size_t>(i)].generation->room().bucket_tokens == tokens;
    });
    if (taken < plan_.engine.options.bucket_capacity) return true;
  }
  return false;
}

// After the round's admission: none of those who still wait could have joined as well.
void World::CheckNobodyWaits() {
  const EngineOptions& options = plan_.engine.options;
  const SchedulingPolicy policy = options.scheduler.policy;
  const EngineStats stats = engine_->stats();
  const bool gated = policy == SchedulingPolicy::kFixed || policy == SchedulingPolicy::kLegacy;
  CheckWhoJoins();
  // Rooms that grow, those of segments, and rounds that aren't for all can't be judged from
  // outside.
  if (plan_.alone || plan_.growing || plan_.sparse || stats.running >= options.sequences_max)
    return;
  if (policy == SchedulingPolicy::kLegacy && stats.running > 0) return;
  const Client* could_join = nullptr;
  for (const int32_t i : in_flight_) {
    const Client& client = clients_[static_cast<size_t>(i)];
    const int64_t waited_us = round_began_us_ - client.arrived_us;
    if (client.joined || client.cancelled || (gated && waited_us < kGateUs)) continue;
    const bool fits = RoomIsFree(client, stats);
    // What is free is kept for one who has been overtaken for long.
    if (!fits && waited_us >= kOvertakenUsMax) return;
    if (fits && could_join == nullptr) could_join = &client;
  }
  EXPECT_EQ(could_join, nullptr) << "one waits while " << options.sequences_max - stats.running
                                 << " slots and " << stats.kv_pages_unheld() << " pages are free";
}

void World::CheckWhoJoins() {
  const bool in_order =
      plan_.engine.options.scheduler.policy == SchedulingPolicy::kImmediate && !plan_.alone;
  const Client* overtaken = nullptr;
  for (const int32_t i : in_flight_) {
    Client& client = clients_[static_cast<size_t>(i)];
    const bool joins = !client.joined && client.generation->room().bucket_tokens > 0;
    client.joined |= joins;
    if (!client.joined && !client.cancelled && overtaken == nullptr) overtaken = &client;
    if (!joins || overtaken == nullptr || !in_order) continue;
    EXPECT_LT(round_began_us_ - overtaken->arrived_us, kOvertakenUsMax) << "overtaken for too long";
  }
}

// No more than a window holds, beside what is the turn of its rows.
void World::CheckSealing(std::span<const BatchSequence> batch, const RoundWork& work) {
  seals_ += work.seals;
  const SchedulerOptions& options = plan_.engine.options.scheduler;
  if (options.policy == SchedulingPolicy::kLegacy || work.seals == 0) return;
  const int64_t window_us = std::max({options.window_us_max, kFixedWindowUs, kImmediateWindowUs});
  // The engine has learnt its costs by rounds of whole microseconds.
  const double seal_us = 0.9 * plan_.engine.options.costs.seal_us;
  const double turns = static_cast<double>(batch.size()) + 2;
  EXPECT_LE(static_cast<double>(work.seals) * seal_us,
            std::max(static_cast<double>(window_us), turns * seal_us));
}

void World::CheckMemory() {
  const KvStats kv = engine_->stats().kv;
  EXPECT_EQ(kv.pages_total, plan_.engine.page_count);
  EXPECT_EQ(kv.pages_free + kv.pages_leased + kv.pages_shared + kv.pages_cached, kv.pages_total);
  EXPECT_EQ(kv.segments_total, plan_.engine.limits.sparse.segments);
  EXPECT_EQ(kv.segments_free + kv.segments_leased + kv.segments_kept, kv.segments_total);
}

void World::CheckEnd() {
  if (::testing::Test::HasFailure()) return;
  const EngineStats stats = engine_->stats();
  EXPECT_TRUE(in_flight_.empty()) << in_flight_.size() << " never ended";
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_pages_unheld(), plan_.engine.page_count);
  EXPECT_EQ(stats.kv.segments_leased, 0);
  EXPECT_EQ(stats.seals, seals_);
  EXPECT_EQ(stats.tokens_generated, tokens_);
  EXPECT_EQ(stats.requests_finished, finished_);
  EXPECT_EQ(stats.requests_cancelled, cancelled_);
  EXPECT_TRUE(down_ || finished_ + cancelled_ + refused_ == requests_);
}

namespace {

constexpr int32_t kSeeds = 60;

int32_t FromEnvironment(const char* name, int32_t otherwise) {
  const char* const text = std::getenv(name);
  int32_t number = otherwise;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

// REMONTOIR_WORLD_REQUESTS of all seeds together; without it enough to see every kind of world.
int32_t RequestsOfASeed() {
  return std::max(1, FromEnvironment("REMONTOIR_WORLD_REQUESTS", 6000) / kSeeds);
}

// For who looks for a fault: REMONTOIR_WORLD_SEED is played alone.
TEST(Worlds, OneByItsSeed) {
  const int32_t seed = FromEnvironment("REMONTOIR_WORLD_SEED", -1);
  if (seed < 0) GTEST_SKIP() << "REMONTOIR_WORLD_SEED isn't set";
  World(static_cast<uint64_t>(seed), RequestsOfASeed()).Play();
}

TEST(Worlds, KeepEveryPromiseAfterEveryStep) {
  int64_t finished = 0;
  int64_t cancelled = 0;
  int64_t refused = 0;
  int64_t stalled = 0;
  int64_t seals = 0;
  const int32_t requests = RequestsOfASeed();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed, requests);
    world.Play();
    if (::testing::Test::HasFailure()) return;
    finished += world.finished();
    cancelled += world.cancelled();
    refused += world.refused();
    stalled += world.stalled();
    seals += world.seals();
  }
  // They were as lively as they should be.
  EXPECT_GT(finished, int64_t{kSeeds} * requests / 2);
  EXPECT_GT(cancelled, int64_t{kSeeds} * requests / 50);
  EXPECT_GT(refused, int64_t{kSeeds} * requests / 200);
  EXPECT_TRUE(requests < 1000 || stalled > 0);
  EXPECT_GT(seals, int64_t{10} * requests);
  std::printf("%lld finished, %lld cancelled, %lld refused, %lld pipes were full\n",
              static_cast<long long>(finished), static_cast<long long>(cancelled),
              static_cast<long long>(refused), static_cast<long long>(stalled));
}

}  // namespace
}  // namespace remontoir
