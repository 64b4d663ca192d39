// Sealed segments in the engine: who holds them, who waits for them, and what stays in the prefix
// cache of a sparse sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "engine_fixture.h"

namespace remontoir {
namespace {

constexpr int32_t kContext = 2560;
constexpr int32_t kEngageAt = 1216;

EngineCase SparseCase(int32_t segments) {
  EngineCase c;
  c.limits.context_max = kContext;
  c.limits.sparse = {.engage_at = kEngageAt, .segments = segments};
  c.page_count = 200;
  return c;
}

TEST(SparseRoom, ASequenceThatMayGetFarEnoughHoldsASegmentForEachThousandTokens) {
  EngineUnderTest test(SparseCase(6));
  std::set<int32_t> held;
  size_t most = 0;
  test.runner.on_run = [&](std::span<const BatchSequence> batch) {
    for (const BatchSequence& sequence : batch) {
      most = std::max(most, sequence.sealed.size());
      for (const SealedSegmentId segment : sequence.sealed) held.insert(Index(segment));
    }
  };
  test.Start();
  test.RunAlone(RequestOf(1000, 100));  // 1100 tokens: never sparse
  EXPECT_EQ(most, 0U);
  Request exact = RequestOf(1300, 5);
  exact.exact = true;
  const auto opted_out = test.Submit(exact);
  test.Collect(*opted_out);
  EXPECT_EQ(most, 0U);
  EXPECT_FALSE(opted_out->room().sparse);
  const auto sparse = test.Submit(RequestOf(2200, 5, 3));
  test.Collect(*sparse);
  EXPECT_EQ(most, 2U);
  EXPECT_EQ(held.size(), 2U);
  EXPECT_TRUE(sparse->room().sparse);
  EXPECT_GT(sparse->attention().far_blocks, 0);
  EXPECT_EQ(sparse->attention().residual_max, 0.05F);
  test.ExpectEmpty();
}

TEST(SparseRoom, WhoFindsNoSegmentsWaitsForThem) {
  EngineUnderTest test(SparseCase(3));
  size_t together = 0;
  test.runner.on_run = [&](std::span<const BatchSequence> batch) {
    std::set<int32_t> held;
    size_t count = 0;
    for (const BatchSequence& sequence : batch) {
      count += sequence.sealed.size();
      for (const SealedSegmentId segment : sequence.sealed) held.insert(Index(segment));
    }
    EXPECT_EQ(held.size(), count) << "a segment of two sequences";
    together = std::max(together, count);
  };
  test.Start();
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Generation>> running;
  for (int i = 0; i < 4; ++i) requests.push_back(RequestOf(2150, 4, 5 + i));
  for (const Request& request : requests) running.push_back(test.Submit(request));
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(test.Collect(*running[i]), ExpectedEvents(requests[i], kContext));
  }
  EXPECT_EQ(together, 2U);
  test.ExpectEmpty();
}

TEST(SparseRoom, GeneratedTokensPastEngageAtAndAShortLastGroupStayOutOfThePrefixCache) {
  const struct {
    int32_t first_prompt;
    int32_t generates;
    int32_t cached;
  } kCases[] = {
      {1300, 40, 1296},  // the prompt's whole groups
      {1296, 40, 1296},
      {1100, 90, 1189},   // generated before engage_at; the last token isn't computed
      {1100, 300, 1216},  // generated up to there
  };
  for (const auto& c : kCases) {
    EngineUnderTest test(SparseCase(6));
    test.Start();
    const Request first = RequestOf(c.first_prompt, c.generates);
    std::vector<TokenId> whole = first.prompt;
    for (const TokenEvent& event : test.RunAlone(first)) whole.push_back(event.token);
    // With room for a sparse sequence, a turn over all of it.
    Request second = RequestOf(1, 200, 2);
    second.prompt = whole;
    for (int i = 0; i < 10; ++i) second.prompt.push_back(TokenId(3));
    const auto again = test.Submit(second);
    EXPECT_EQ(test.Collect(*again), ExpectedEvents(second, kContext));
    EXPECT_EQ(again->cached_tokens(), c.cached) << c.first_prompt << " " << c.generates;
    // Exact requests share nothing with sparse ones.
    second.exact = true;
    const auto exact = test.Submit(second);
    test.Collect(*exact);
    EXPECT_EQ(exact->cached_tokens(), 0);
  }
}

TEST(SparseRoom, AHitBringsItsSealedSegmentsAlong) {
  EngineUnderTest test(SparseCase(6));
  int64_t seals = 0;
  test.runner.on_run = [&](std::span<const BatchSequence> batch) {
    for (const BatchSequence& sequence : batch) seals += sequence.seals->count();
  };
  test.Start();
  Request first = RequestOf(2300, 2);
  EXPECT_EQ(test.RunAlone(first), ExpectedEvents(first, kContext));
  EXPECT_EQ(seals, 2 * kFakeLayers);
  Request longer = first;
  longer.prompt.push_back(TokenId(3));
  const auto hit = test.Submit(longer);
  EXPECT_EQ(test.Collect(*hit), ExpectedEvents(longer, kContext));
  EXPECT_EQ(hit->cached_tokens(), 2296);
  EXPECT_EQ(seals, 2 * kFakeLayers) << "what came with the pages was sealed again";
  const EngineStats stats = test.engine->stats();
  EXPECT_EQ(stats.kv.segments_matched, 2);
  EXPECT_EQ(stats.kv.segments_kept, 2);
  EXPECT_EQ(stats.kv.segments_leased, 0);
  EXPECT_EQ(stats.seals, seals);
  // Also where its turn would only come later.
  Request turning = first;
  turning.prompt.resize(2200);
  turning.max_tokens = 300;
  EXPECT_EQ(test.RunAlone(turning), ExpectedEvents(turning, kContext));
  EXPECT_EQ(test.engine->stats().seals, 2 * kFakeLayers);
  EXPECT_EQ(stats.sparse_rows, 2300 - kEngageAt + 1 + 2301 - 2296 + 1);
}

TEST(SparseRoom, SegmentsOfThePrefixCacheGoToWhoNeedsThem) {
  EngineUnderTest test(SparseCase(3));
  test.Start();
  const Request first = RequestOf(2300, 4, 1);
  const Request other = RequestOf(2300, 4, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(test.RunAlone(first), ExpectedEvents(first, kContext));
    EXPECT_EQ(test.RunAlone(other), ExpectedEvents(other, kContext));
    const KvStats kv = test.engine->stats().kv;
    EXPECT_EQ(kv.segments_leased, 0);
    EXPECT_EQ(kv.segments_kept + kv.segments_free, 3);
    EXPECT_GE(kv.segments_kept, 2);
  }
}

// An engine whose clock goes by what rounds cost, run by the test; what every round sealed.
class SealingTest : public ::testing::Test {
 protected:
  static constexpr int32_t kLongContext = 8192;
  static constexpr int32_t kLateEngage = 5000;

  SealingTest() : test_(Case()) {
    test_.runner.on_run = [this](std::span<const BatchSequence> batch) {
      RoundWork work;
      for (const BatchSequence& sequence : batch) {
        if (sequence.seals.has_value()) work.seals += sequence.seals->count();
        if (sequence.tokens.size() == 1) {
          work.AddDecode(sequence.first_position + 1);
          ++decode_rows_;
        } else {
          work.AddPrefill(std::ssize(sequence.tokens), sequence.first_position);
        }
      }
      ++rounds_;
      seals_ += work.seals;
      const CostModel costs = Case().options.costs;
      most_us_ = std::max(most_us_, costs.PredictUs(work));
      if (work.seals > 0 && work.prefill_tokens == 0) ++sealing_rounds_;
      test_.clock.AdvanceUs(static_cast<int64_t>(costs.PredictUs(work)));
    };
    test_.Start();
  }

  static EngineCase Case() {
    EngineCase c;
    c.limits.context_max = kLongContext;
    c.limits.rows_max = 512;
    c.limits.sparse = {.engage_at = kLateEngage, .segments = 20};
    c.options.round_tokens_max = 512;
    c.options.own_thread = false;
    // A segment takes 75 ms of the 120 of a round.
    c.options.costs = {2000, 100, 500, 0, 0, 2500};
    c.page_count = 400;
    return c;
  }

  std::vector<TokenEvent> Finish(Generation& generation) {
    std::vector<TokenEvent> events;
    TokenEvent event;
    while (events.empty() || events.back().finish == FinishReason::kNone) {
      while (generation.TryPop(event)) events.push_back(event);
      if (!test_.engine->RunRound().ran && !generation.TryPop(event)) break;
    }
    return events;
  }

  EngineUnderTest test_;
  int64_t rounds_ = 0;
  int64_t decode_rows_ = 0;
  int64_t seals_ = 0;
  int64_t sealing_rounds_ = 0;
  double most_us_ = 0;
};

TEST_F(SealingTest, AHitOnUnsealedPagesIsSealedWithinTheWindowsOfItsRounds) {
  const Request brief = RequestOf(4900, 20);  // never sparse: its pages come without segments
  const auto first = test_.Submit(brief);
  EXPECT_EQ(Finish(*first), ExpectedEvents(brief, kLongContext));
  EXPECT_EQ(seals_, 0);
  Request neighbour = RequestOf(20, 2000, 7);
  neighbour.ignore_eos = true;
  const auto beside = test_.Submit(neighbour);
  while (!beside->placed()) test_.engine->RunRound();

  Request request = brief;
  const std::vector<TokenId> rest = PromptOf(300, 5);
  request.prompt.insert(request.prompt.end(), rest.begin(), rest.end());
  const int64_t submitted_us = test_.clock.Now().us;
  const auto hit = test_.Submit(request);
  rounds_ = 0;
  decode_rows_ = 0;
  most_us_ = 0;
  while (!hit->placed()) test_.engine->RunRound();
  EXPECT_GE(hit->cached_tokens(), 4864);
  // Four segments of 30 layers, of which 46 seals fit beside a row.
  EXPECT_GE(sealing_rounds_, 2);
  EXPECT_LE(most_us_, kImmediateWindowUs + 1);
  EXPECT_GE(decode_rows_, rounds_ - 1) << "the neighbour waits for somebody's seals";
  const double first_token_us = static_cast<double>(test_.clock.Now().us - submitted_us);
  EXPECT_NEAR(static_cast<double>(hit->admission().first_token_us), first_token_us,
              0.1 * first_token_us);
  EXPECT_EQ(Finish(*hit), ExpectedEvents(request, kLongContext));
  EXPECT_EQ(seals_, SealsDue(5200, kFakeLayers) + SealsDue(5219, kFakeLayers) -
                        SealsDue(5200, kFakeLayers));

  // Now they are sealed, and stay with the pages.
  const int64_t before = seals_;
  const auto again = test_.Submit(request);
  EXPECT_EQ(Finish(*again), ExpectedEvents(request, kLongContext));
  EXPECT_LT(seals_ - before, kFakeLayers);
}

TEST_F(SealingTest, ARoomThatGrowsIntoTheSparseModeIsSealedLittleByLittle) {
  Request request = RequestOf(4000, -1, 4);
  request.room.context_hint = 4010;
  request.ignore_eos = true;
  const auto generation = test_.Submit(request);
  double most_us = 0;
  std::vector<TokenEvent> events;
  TokenEvent event;
  while (events.size() < 1300) {
    most_us_ = 0;
    const bool decodes = !events.empty();
    ASSERT_TRUE(test_.engine->RunRound().ran);
    while (generation->TryPop(event)) events.push_back(event);
    if (decodes) most_us = std::max(most_us, most_us_);
  }
  EXPECT_EQ(seals_, SealsDue(4000 + 1299, kFakeLayers));
  EXPECT_LE(most_us, 2000 + 500 + 2 * 2500 + 1) << "at most two seals beside a row";
  generation->Cancel();
  test_.engine->RunRound();
}

}  // namespace
}  // namespace remontoir
