// Facts about compiling programs: what doesn't fit together is refused by name, before any round.
#include "backend/cpu_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {
namespace {

using ::testing::HasSubstr;

template <class Op>
Op& First(Program* program) {
  for (Operation& operation : program->operations) {
    if (Op* op = std::get_if<Op>(&operation)) return *op;
  }
  REM_CHECK(false, "the program has such an operation");
}

struct Case {
  const char* name;
  bool experts;
  std::function<void(Program*)> spoil;
  const char* says;
};

std::vector<Case> Cases() {
  const auto activation = [](Program* p, ActivationId id) -> Activation& {
    return p->activations[static_cast<size_t>(id)];
  };
  return {
      {"embedding width", false,
       [=](Program* p) { activation(p, First<EmbedOp>(p).out).width = 63; }, "embedding"},
      {"no activation", false, [](Program* p) { First<NormOp>(p).in = kNoActivation; },
       "without its activation"},
      {"no weight", false, [](Program* p) { First<NormOp>(p).weight = kNoWeight; },
       "without its weight"},
      {"norm groups", false, [](Program* p) { First<NormOp>(p).group_width = 60; },
       "whole norm groups of 60"},
      {"product width", false,
       [=](Program* p) { activation(p, First<MatMulOp>(p).products[0].out).width = 100; },
       "tensor m: shape [1][128][64], wanted [1][100][64]"},
      {"a product onto its input", false,
       [](Program* p) { First<MatMulOp>(p).products[1].out = First<MatMulOp>(p).in; }, "normed"},
      {"too many products", false, [](Program* p) { First<MatMulOp>(p).product_count = 4; },
       "1 to 3 matrices"},
      {"bias width", false,
       [](Program* p) { First<MatMulOp>(p).products[0].bias = First<NormOp>(p).weight; },
       "64 values"},
      {"layer", false, [](Program* p) { First<RopeIntoKvOp>(p).layer = 2; }, "KV layer 2"},
      {"rotary width", false,
       [](Program* p) { First<RopeIntoKvOp>(p).rope.frequencies.resize(17); }, "34 rotated values"},
      {"head sharing", false, [](Program* p) { First<AttentionOp>(p).heads = 3; },
       "don't share 2 KV heads evenly"},
      {"query width", false, [](Program* p) { First<AttentionOp>(p).heads = 6; }, "queries"},
      {"attention onto queries", false,
       [](Program* p) { First<AttentionOp>(p).out = First<AttentionOp>(p).queries; }, "queries"},
      {"rotary place", false, [](Program* p) { First<RopeIntoKvOp>(p).rotary_begin = 8; },
       "rotated values from 8 on"},
      {"temperature", false, [](Program* p) { First<AttentionOp>(p).temperature_length = 1; },
       "temperature length 1"},
      {"gate width", false,
       [=](Program* p) { First<GatedActivationOp>(p).up = First<NormOp>(p).in; }, "stream"},
      {"sum of other rows", false, [](Program* p) { First<AddOp>(p).in = First<LogitsOp>(p).in; },
       "logit rows"},
      {"logits of token rows", false,
       [](Program* p) { First<LogitsOp>(p).in = First<AddOp>(p).inout; }, "logit rows"},
      {"vocabulary", false, [](Program* p) { p->vocabulary_size = 49; }, "head"},
      {"more experts than planned", true, [](Program* p) { p->experts_used_max = 1; },
       "at most 1 planned"},
      {"router width", true, [](Program* p) { First<RouteOp>(p).experts = 5; }, "routes"},
      {"uneven expert groups", true, [](Program* p) { First<RouteOp>(p).groups = 3; },
       "1 of 3 groups"},
      {"experts of too few groups", true,
       [](Program* p) {
         First<RouteOp>(p).groups = 4;
         First<RouteOp>(p).groups_used = 1;
       },
       "2 experts of 1 of 4 groups"},
      {"choice bias width", true,
       [](Program* p) {
         First<RouteOp>(p).score = RouterScore::kSigmoid;
         First<RouteOp>(p).choice_bias = First<NormOp>(p).weight;
       },
       "64 values"},
      {"choice bias without sigmoids", true,
       [](Program* p) { First<RouteOp>(p).choice_bias = First<NormOp>(p).weight; }, "sigmoids"},
      {"dense matrix as expert", true,
       [](Program* p) {
         First<GroupedMatMulOp>(p).products[0].weight = First<MatMulOp>(p).products[0].weight;
       },
       "tensor m"},
      {"expert bias", true,
       [](Program* p) { First<GroupedMatMulOp>(p).products[0].bias = First<NormOp>(p).weight; },
       "64 values, wanted 384"},
      {"fine expert activations", true,
       [](Program* p) { First<GroupedMatMulOp>(p).products[0].fine_activations = true; },
       "fine activations of expert matrices"},
      {"sigmoid gate width", true,
       [](Program* p) { First<SigmoidGateOp>(p).gate = First<NormOp>(p).in; }, "token rows of 1"},
      {"grouped product onto token rows", true,
       [](Program* p) { First<GroupedMatMulOp>(p).products[0].out = First<AddOp>(p).in; },
       "wanted expert rows"},
      {"sum of token rows", true,
       [](Program* p) { First<ExpertCombineOp>(p).in = First<AddOp>(p).in; }, "wanted expert rows"},
  };
}

TEST(CpuProgram, RefusesWhatDoesntFitByName) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    TinyShape shape;
    shape.experts = c.experts ? 4 : 0;
    shape.shared_expert = c.experts;
    const TinyModel model(shape);
    CpuBackendOptions options;
    options.threads = 1;
    auto backend = MakeCpuBackend(options);
    ASSERT_TRUE(backend.ok());
    Program program = model.Load(**backend);
    c.spoil(&program);
    const Status status = (*backend)->Prepare(std::move(program), model.layout(),
                                              {.arena_pages = 4}, {16, 2, 16, 128, {}});
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(c.says));
  }
}

TEST(CpuProgram, GroupedProductsNeedARouting) {
  TinyShape shape;
  shape.experts = 4;
  const TinyModel model(shape);
  CpuBackendOptions options;
  options.threads = 1;
  auto backend = MakeCpuBackend(options);
  Program program = model.Load(**backend);
  std::erase_if(program.operations,
                [](const Operation& op) { return std::holds_alternative<RouteOp>(op); });
  const Status status = (*backend)->Prepare(std::move(program), model.layout(), {.arena_pages = 4},
                                            {16, 2, 16, 128, {}});
  EXPECT_THAT(status.message(), HasSubstr("before any routing"));
}

TEST(CpuProgram, ImpossibleLimitsAreRefused) {
  const TinyModel model(TinyShape{});
  for (const RoundLimits& limits : {RoundLimits{0, 1, 1, 64, {}}, RoundLimits{1, 0, 1, 64, {}},
                                    RoundLimits{1, 1, 0, 64, {}}, RoundLimits{1, 1, 1, 0, {}}}) {
    auto backend = MakeCpuBackend({1, ComputeMode::kAuto});
    Program program = model.Load(**backend);
    EXPECT_FALSE(
        (*backend)->Prepare(std::move(program), model.layout(), {.arena_pages = 1}, limits).ok());
  }
}

}  // namespace
}  // namespace remontoir::testing
