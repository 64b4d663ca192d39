// Facts about which operations run as one step: only where no value goes missing.
#include "backend/fusion.h"

#include <gtest/gtest.h>

namespace remontoir::testing {
namespace {

// A feed-forward layer: norm, gate and up, gate, down, sum, norm. Operation numbers below.
class Fusion : public ::testing::Test {
 protected:
  static constexpr size_t kInner = 1;
  static constexpr size_t kSum = 4;

  Fusion() {
    MatMulOp inner{.in = normed_, .products = {}, .product_count = 2};
    inner.products[0] = {.weight = WeightId(1), .out = gate_};
    inner.products[1] = {.weight = WeightId(2), .out = up_};
    MatMulOp down{.in = gate_, .products = {}, .product_count = 1};
    down.products[0] = {.weight = WeightId(3), .out = block_out_};
    program_.operations = {Norm(stream_, normed_),
                           inner,
                           GatedActivationOp{.gate = gate_, .up = up_, .out = gate_},
                           down,
                           AddOp{.in = block_out_, .inout = stream_},
                           Norm(stream_, normed_)};
  }

  static NormOp Norm(ActivationId in, ActivationId out, int32_t group_width = 64) {
    return {.in = in, .out = out, .weight = WeightId(0), .epsilon = 0, .group_width = group_width};
  }
  template <class Op>
  Op& At(size_t index) {
    return std::get<Op>(program_.operations[index]);
  }
  void Append(Operation operation) { program_.operations.push_back(std::move(operation)); }

  Program program_;
  ActivationId stream_ = program_.AddActivation("stream", 64);
  ActivationId normed_ = program_.AddActivation("normed", 64);
  ActivationId gate_ = program_.AddActivation("gate", 96);
  ActivationId up_ = program_.AddActivation("up", 96);
  ActivationId block_out_ = program_.AddActivation("block_out", 64);
};

TEST_F(Fusion, JoinsAGateToTheProductBeforeIt) {
  const GatedActivationOp* gate = GateOfProduct(program_, kInner);
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate, &At<GatedActivationOp>(kInner + 1));
  for (size_t i = 0; i < program_.operations.size(); ++i) {
    EXPECT_EQ(GateOfProduct(program_, i) != nullptr, i == kInner) << i;
  }
}

TEST_F(Fusion, JoinsAGateToGroupedProducts) {
  GroupedMatMulOp grouped{.in = normed_, .products = {}, .product_count = 2};
  grouped.products[0] = {.weight = WeightId(1), .out = gate_};
  grouped.products[1] = {.weight = WeightId(2), .out = up_};
  program_.operations[kInner] = grouped;
  EXPECT_NE(GateOfProduct(program_, kInner), nullptr);
}

TEST_F(Fusion, KeepsAnUpThatSomethingElseReads) {
  Append(AddOp{.in = up_, .inout = gate_});
  EXPECT_EQ(GateOfProduct(program_, kInner), nullptr);
}

TEST_F(Fusion, KeepsAnUpThatALaterGateReadsWithoutItsProduct) {
  Append(GatedActivationOp{.gate = gate_, .up = up_, .out = gate_});
  EXPECT_EQ(GateOfProduct(program_, kInner), nullptr);
}

TEST_F(Fusion, LeavesAGateOfOtherOperandsAlone) {
  At<GatedActivationOp>(kInner + 1).out = up_;
  EXPECT_EQ(GateOfProduct(program_, kInner), nullptr);
  At<GatedActivationOp>(kInner + 1) = {.gate = up_, .up = gate_, .out = up_};
  EXPECT_EQ(GateOfProduct(program_, kInner), nullptr);
}

TEST_F(Fusion, LeavesAGateBehindThreeProductsAlone) {
  At<MatMulOp>(kInner).product_count = 3;
  EXPECT_EQ(GateOfProduct(program_, kInner), nullptr);
}

TEST_F(Fusion, JoinsANormToTheSumBeforeIt) {
  EXPECT_EQ(NormOfSum(program_, kSum), &At<NormOp>(kSum + 1));
  for (size_t i = 0; i < program_.operations.size(); ++i) {
    EXPECT_EQ(NormOfSum(program_, i) != nullptr, i == kSum) << i;
  }
}

TEST_F(Fusion, LeavesNormsOfOtherValuesOrOfHeadsAlone) {
  At<NormOp>(kSum + 1) = Norm(block_out_, normed_);
  EXPECT_EQ(NormOfSum(program_, kSum), nullptr);
  At<NormOp>(kSum + 1) = Norm(stream_, stream_);  // the stream itself is still wanted
  EXPECT_EQ(NormOfSum(program_, kSum), nullptr);
  At<NormOp>(kSum + 1) = Norm(stream_, normed_, 16);
  EXPECT_EQ(NormOfSum(program_, kSum), nullptr);
  program_.operations.pop_back();
  EXPECT_EQ(NormOfSum(program_, kSum), nullptr);
}

}  // namespace
}  // namespace remontoir::testing
