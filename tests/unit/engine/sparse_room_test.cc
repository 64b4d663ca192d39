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
  std::vector<int32_t> until;
  test.runner.on_run = [&](std::span<const BatchSequence> batch) {
    for (const BatchSequence& sequence : batch) {
      most = std::max(most, sequence.sealed.size());
      for (const SealedSegmentId segment : sequence.sealed) held.insert(Index(segment));
      until.push_back(sequence.sealed_until);
      if (sequence.first_position > 0 && !sequence.sealed.empty()) {
        EXPECT_EQ(sequence.sealed_until, sequence.first_position);
      }
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

}  // namespace
}  // namespace remontoir
