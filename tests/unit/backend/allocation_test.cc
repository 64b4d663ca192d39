// Facts about memory on the request path: a round takes none.
#include <gtest/gtest.h>

#include "base/thread_counters.h"
#include "tests/unit/backend/rounds.h"
#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {
namespace {

std::vector<int32_t> Repeat(int32_t tokens) {
  std::vector<int32_t> text;
  for (int32_t i = 0; i < tokens; ++i) text.push_back(i % 50);
  return text;
}

TEST(CpuBackend, RoundsAllocateNothing) {
  if (!HeapAllocationsOfProcess().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  TinyShape shape;
  shape.type = DType::kQ8_0;
  shape.experts = 4;
  shape.window = 30;
  CpuBackendOptions options;
  options.threads = 2;
  const TinyModel model(shape);
  Rounds rounds(model, options);
  const size_t first = rounds.Add(Repeat(400));
  const size_t second = rounds.Add(Repeat(2000));
  for (int round = 0; round < 100; ++round) {
    // Prefill, decode and both, none of them run before.
    std::vector<Chunk> chunks = {{first, 1 + round % 7}};
    if (round % 3 != 0) chunks.push_back({second, 1 + round % 40});
    const RoundInputs& inputs = rounds.Prepare(chunks);
    // Of all threads: the workers' count too.
    const int64_t before = *HeapAllocationsOfProcess();
    rounds.backend().Run(inputs);
    ASSERT_EQ(*HeapAllocationsOfProcess(), before) << "round " << round;
    rounds.Run(chunks);
  }
}

TEST(CpuBackend, SparseRoundsAllocateNothing) {
  if (!HeapAllocationsOfProcess().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  const TinyModel model(TinyShape{});
  Rounds rounds(model, {.threads = 2}, 2, {.engage_at = 1216, .epsilon = 0.2F});
  const size_t first = rounds.Add(Repeat(2400));
  const size_t second = rounds.Add(Repeat(2400));
  while (rounds.Left(first) > 8) {
    const int32_t tokens = std::min(rounds.Left(first) / 8 * 8, 200);
    std::vector<Chunk> chunks = {{first, tokens}};
    if (rounds.Left(second) > 0) chunks.push_back({second, std::min(56, rounds.Left(second))});
    const RoundInputs& inputs = rounds.Prepare(chunks);
    const int64_t before = *HeapAllocationsOfProcess();
    rounds.backend().Run(inputs);
    ASSERT_EQ(*HeapAllocationsOfProcess(), before) << rounds.Left(first) << " left";
    rounds.Run(chunks);
  }
}

}  // namespace
}  // namespace remontoir::testing
