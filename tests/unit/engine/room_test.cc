// What a sequence's room is made of, and that nobody's tokens depend on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine_fixture.h"

namespace remontoir {
namespace {

constexpr int32_t kContext = 512;

std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Runs the request alone and checks its tokens; its generation tells of its room.
std::shared_ptr<Generation> RunWell(EngineUnderTest& test, const Request& request) {
  auto generation = test.Submit(request);
  EXPECT_EQ(test.Collect(*generation), ExpectedEvents(request, kContext));
  return generation;
}

// A first request, and how much of a second one's prompt it leaves in the prefix cache.
struct CacheCase {
  std::string name;
  int32_t first_prompt;
  int32_t first_generates;
  std::vector<TokenId> second_prompt;
  int32_t cached;
  int copies;
};

// The prompt of the first request and what it generated.
std::vector<TokenId> FirstWhole(int32_t prompt, int32_t generates) {
  const Request request = RequestOf(prompt, generates);
  std::vector<TokenId> tokens = request.prompt;
  for (const TokenEvent& event : ExpectedEvents(request, kContext)) tokens.push_back(event.token);
  return tokens;
}

std::vector<CacheCase> CacheCases() {
  const auto other = PromptOf(40, 9);
  return {
      {"the same prompt again, but for its last token", 100, 4, PromptOf(100, 1), 99, 1},
      {"whole pages only", 128, 4, Joined(PromptOf(128, 1), other), 128, 0},
      {"a page and a tail", 100, 1, Joined(PromptOf(100, 1), other), 100, 1},
      {"a tail alone", 30, 1, Joined(PromptOf(30, 1), other), 30, 1},
      {"a tail that parts inside a full page", 128, 4, Joined(PromptOf(90, 1), other), 90, 1},
      {"a turn over a generated answer, whose last token isn't computed", 90, 60,
       Joined(FirstWhole(90, 60), other), 149, 1},
      {"nothing in common", 100, 4, PromptOf(100, 5), 0, 0},
      {"one token", 100, 4, {PromptOf(1, 1)[0]}, 0, 0},
  };
}

TEST(PrefixCacheInTheEngine, SavesWhatWasComputedAndChangesNoToken) {
  for (const CacheCase& c : CacheCases()) {
    SCOPED_TRACE(c.name);
    EngineUnderTest test;
    test.Start();
    EXPECT_EQ(RunWell(test, RequestOf(c.first_prompt, c.first_generates))->cached_tokens(), 0);
    Request second = RequestOf(1, 10, 2);
    second.prompt = c.second_prompt;
    EXPECT_EQ(RunWell(test, second)->cached_tokens(), c.cached);
    EXPECT_EQ(test.runner.pages.copies, c.copies);
    test.ExpectEmpty();
  }
}

TEST(PrefixCacheInTheEngine, IsBypassedByWhoWantsItAndByScores) {
  EngineUnderTest test;
  test.Start();
  Request request = RequestOf(100, 4);
  request.room.bypasses_cache = true;
  RunWell(test, request);
  request.room.bypasses_cache = false;
  EXPECT_EQ(RunWell(test, request)->cached_tokens(), 0) << "a bypassing request left something";
  request.room.bypasses_cache = true;
  EXPECT_EQ(RunWell(test, request)->cached_tokens(), 0);
  request.room.bypasses_cache = false;
  EXPECT_EQ(RunWell(test, request)->cached_tokens(), 99);
  request.kind = RequestKind::kScore;
  EXPECT_EQ(RunWell(test, request)->cached_tokens(), 0);
}

TEST(PrefixCacheInTheEngine, IsSharedUnderOneKeyOnly) {
  EngineUnderTest test;
  test.Start();
  Request request = RequestOf(100, 4);
  request.room.prefix_key = {1, 2};
  RunWell(test, request);
  for (const PrefixKey other : {PrefixKey{1, 3}, PrefixKey{2, 2}, PrefixKey{}}) {
    request.room.prefix_key = other;
    EXPECT_EQ(RunWell(test, request)->cached_tokens(), 0);
  }
  request.room.prefix_key = {1, 2};
  EXPECT_EQ(RunWell(test, request)->cached_tokens(), 99);
}

TEST(PrefixCacheInTheEngine, SharesPagesOfASequenceThatStillRuns) {
  EngineUnderTest test;
  const Request second = RequestOf(200, 10);
  std::shared_ptr<Generation> later;
  test.runner.on_run = [&](std::span<const BatchSequence> batch) {
    // The first one has computed three whole pages and decodes.
    if (later == nullptr && batch[0].first_position > 195) later = test.Submit(second);
  };
  test.Start();
  const Request first = RequestOf(200, 100);
  EXPECT_EQ(test.RunAlone(first), ExpectedEvents(first, kContext));
  EXPECT_EQ(test.Collect(*later), ExpectedEvents(second, kContext));
  EXPECT_EQ(later->cached_tokens(), 192);
}

TEST(PrefixCacheInTheEngine, GivesWayToReservations) {
  EngineCase c;
  c.page_count = 4;
  EngineUnderTest test(c);
  test.Start();
  RunWell(test, RequestOf(130, 20));  // leaves three pages
  EXPECT_EQ(test.engine->stats().kv.pages_cached, 3);
  RunWell(test, RequestOf(150, 100, 2));  // needs four
  EXPECT_EQ(test.engine->stats().kv.evictions, 3);
  test.ExpectEmpty();
}

TEST(DynamicRoom, ComesFromTheSystemAndGoesBack) {
  EngineCase c;
  c.dynamic_page_count = 8;
  EngineUnderTest test(c);
  int32_t taken_at_most = 0;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    taken_at_most = std::max(taken_at_most, test.runner.pages.taken());
  };
  test.Start();
  Request request = RequestOf(100, 50);
  request.room.dynamic = true;
  for (int i = 0; i < 2; ++i) {
    const auto generation = RunWell(test, request);
    EXPECT_EQ(generation->cached_tokens(), 0);
    EXPECT_TRUE(generation->room().dynamic);
    EXPECT_EQ(generation->room().bucket_tokens, 0);
  }
  EXPECT_EQ(taken_at_most, 3);
  EXPECT_EQ(test.runner.pages.taken(), 0);
  EXPECT_EQ(test.engine->stats().kv.pages_free, 64) << "the arena was touched";
}

TEST(DynamicRoom, GrowsAndEndsWhereTheRegionEnds) {
  EngineCase c;
  c.dynamic_page_count = 4;
  c.options.reserve_tokens_default = 64;
  EngineUnderTest test(c);
  test.Start();
  Request request = RequestOf(64, -1);
  request.room.dynamic = true;
  std::vector<TokenEvent> expected = ExpectedEvents(request, kContext);
  expected.resize(4 * 64 + 1 - 64);
  expected.back().finish = FinishReason::kLength;
  expected.back().detail = StopDetail::kKvRoom;
  EXPECT_EQ(test.RunAlone(request), expected);
  EXPECT_EQ(test.runner.pages.taken(), 0);
}

TEST(DynamicRoom, EndsAtOnceWhereTheSystemHasNone) {
  EngineCase c;
  c.dynamic_page_count = 4;
  EngineUnderTest test(c);
  test.runner.pages.dynamic_fails = true;
  test.Start();
  Request request = RequestOf(64, 10);
  request.room.dynamic = true;
  const std::vector<TokenEvent> events = test.RunAlone(request);
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].token, kNoToken);
  EXPECT_EQ(events[0].finish, FinishReason::kLength);
  EXPECT_EQ(events[0].detail, StopDetail::kKvRoom);
  request.room.dynamic = false;
  RunWell(test, request);
  test.ExpectEmpty();
}

TEST(DynamicRoom, IsRefusedWhereTheRegionIsTooSmall) {
  EngineCase c;
  c.dynamic_page_count = 1;
  EngineUnderTest test(c);
  test.Start();
  Request request = RequestOf(64, 10);
  request.room.dynamic = true;
  const Status status = test.engine->Submit(std::make_shared<Generation>(request, &test.notifier));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("token limit exceeded"));
}

TEST(DynamicRoom, IsEverybodysWithoutAnArena) {
  EngineCase c;
  c.page_count = 0;
  c.dynamic_page_count = 8;
  c.options.dynamic = true;
  EngineUnderTest test(c);
  test.Start();
  EXPECT_TRUE(RunWell(test, RequestOf(100, 50))->room().dynamic);
  EXPECT_EQ(test.runner.pages.taken(), 0);
}

struct BucketCase {
  std::string name;
  int32_t prompt;
  int32_t max_tokens;
  int32_t hint;
  int32_t bucket_tokens;
};

TEST(Buckets, TheSmallestClassThatHoldsTheReservation) {
  const BucketCase cases[] = {
      {"just in", 100, 28, 0, 128},
      {"one more", 100, 29, 0, 256},
      {"the context", 100, 412, 0, 512},
      {"the default reservation", 100, -1, 0, 256},
      {"a hint makes it smaller", 100, 300, 120, 128},
      {"but not smaller than the prompt", 130, 300, 120, 256},
      {"and never larger", 100, 20, 500, 128},
  };
  for (const BucketCase& c : cases) {
    SCOPED_TRACE(c.name);
    EngineCase engine;
    engine.options.bucket_tokens = {128, 256, 512};
    EngineUnderTest test(engine);
    test.Start();
    Request request = RequestOf(c.prompt, c.max_tokens);
    request.room.context_hint = c.hint;
    EXPECT_EQ(RunWell(test, request)->room().bucket_tokens, c.bucket_tokens);
  }
}

TEST(Buckets, BoundTheLeasesOfAClassWhateverPagesThereAre) {
  EngineCase c;
  c.options.bucket_tokens = {128, 512};
  c.options.bucket_capacity = 1;
  EngineUnderTest test(c);
  std::vector<std::shared_ptr<Generation>> generations;
  size_t together = 0;
  test.runner.on_run = [&](std::span<const BatchSequence> batch) {
    while (generations.size() < 4) {
      generations.push_back(test.Submit(RequestOf(20, 30, 2 + generations.size())));
    }
    together = std::max(together, batch.size());
  };
  test.Start();
  EXPECT_EQ(test.RunAlone(RequestOf(20, 30)), ExpectedEvents(RequestOf(20, 30), kContext));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(test.Collect(*generations[i]), ExpectedEvents(RequestOf(20, 30, 2 + i), kContext));
  }
  EXPECT_EQ(together, 2);
}

}  // namespace
}  // namespace remontoir
