// Facts about planned activations: never less than what a program takes, and not much more.
#include "backend/activation_plan.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {
namespace {

TEST(ActivationBytesMax, BoundsWhatPrepareTakes) {
  const struct {
    const char* name;
    void (*change)(TinyShape&);
  } kCases[] = {
      {"float32", [](TinyShape&) {}},
      {"q8_0", [](TinyShape& s) { s.type = DType::kQ8_0; }},
      {"q8_0, fine",
       [](TinyShape& s) {
         s.type = DType::kQ8_0;
         s.fine = true;
       }},
      {"experts",
       [](TinyShape& s) {
         s.type = DType::kQ8_0;
         s.experts = 4;
       }},
      {"a wide value", [](TinyShape& s) { s.value_width = 80; }},
  };
  for (const auto& c : kCases) {
    for (const ComputeMode compute : {ComputeMode::kAuto, ComputeMode::kF32}) {
      SCOPED_TRACE(c.name);
      TinyShape shape;
      c.change(shape);
      const TinyModel model(shape);
      const CpuBackendOptions options = {2, compute};
      auto backend = MakeCpuBackend(options);
      ASSERT_TRUE(backend.ok());
      const Program program = model.Load(**backend);
      const RoundLimits limits = {64, 2, 16, 3000, {}};
      // Weights that are no blocks ask for no 8-bit form.
      const bool float32 = compute == ComputeMode::kF32 || shape.type == DType::kF32;
      const int64_t planned = ActivationBytesMax(program, model.layout(), limits, 2, float32);
      ASSERT_TRUE((*backend)->Prepare(program, model.layout(), {.arena_pages = 1}, limits).ok());
      EXPECT_GE(planned, (*backend)->activation_bytes());
      EXPECT_LE(planned, (*backend)->activation_bytes() + (*backend)->activation_bytes() / 10);
    }
  }
}

TEST(ActivationBytesMax, EndsAtTheLargestNumber) {
  Program program;
  for (int i = 0; i < 100; ++i) program.AddActivation("a", std::numeric_limits<int32_t>::max());
  const KvLayout layout({{1, 16, 16, DType::kF16, 0}});
  const RoundLimits limits = {std::numeric_limits<int32_t>::max(), 1, 1, 64, {}};
  EXPECT_EQ(ActivationBytesMax(program, layout, limits, 1, true),
            std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace remontoir::testing
