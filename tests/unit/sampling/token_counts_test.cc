// Counts of seen tokens, and their reset.
#include "sampling/token_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TokenCounts, CountsOutputApartFromPrompt) {
  TokenCounts counts(10, 8);
  counts.AddPrompt(TokenId(3));
  counts.AddPrompt(TokenId(3));
  counts.AddOutput(TokenId(3));
  counts.AddOutput(TokenId(5));
  counts.AddOutput(TokenId(5));
  EXPECT_THAT(counts.seen(), ElementsAre(TokenId(3), TokenId(5)));
  EXPECT_EQ(counts.output_count(TokenId(3)), 1);
  EXPECT_EQ(counts.output_count(TokenId(5)), 2);
  EXPECT_EQ(counts.output_count(TokenId(4)), 0);
}

TEST(TokenCounts, ForgetsEverythingOnReset) {
  TokenCounts counts(10, 8);
  counts.AddPrompt(TokenId(3));
  counts.AddOutput(TokenId(9));
  counts.Reset();
  EXPECT_THAT(counts.seen(), IsEmpty());
  EXPECT_EQ(counts.output_count(TokenId(9)), 0);
  counts.AddPrompt(TokenId(9));
  EXPECT_EQ(counts.output_count(TokenId(9)), 0);
}

}  // namespace
}  // namespace remontoir
