// When seals are due.
#include "tensor/sealed_layout.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TEST(SealsDue, TakeTurnsOverThePositionsBetweenASegmentsEndAndTheFirstRowThatNeedsIt) {
  constexpr int32_t kSegments = 3;
  for (const int32_t layers : {1, 2, 18, 30, 128, 200}) {
    int32_t before = 0;
    for (int32_t keys = 0; keys < SegmentEnd(kSegments - 1) + 1024; ++keys) {
      const int32_t due = SealsDue(keys, layers);
      // Their keys are there.
      const int32_t ended = keys < SegmentEnd(0) ? 0 : (keys - kAnchorKeys) / kSegmentKeys;
      EXPECT_LE(due, ended * layers) << keys;
      // What is far for the row of the last key is sealed.
      EXPECT_GE(due, keys == 0 ? 0 : FarSegments(keys - 1) * layers) << keys;
      // One position brings few.
      EXPECT_GE(due, before) << keys;
      EXPECT_LE(due - before, (layers + kLocalKeysMin - 1) / kLocalKeysMin) << keys;
      before = due;
    }
    EXPECT_EQ(before, kSegments * layers);
  }
  EXPECT_EQ(SealsDue(100'000, 0), 0);
}

}  // namespace
}  // namespace remontoir
