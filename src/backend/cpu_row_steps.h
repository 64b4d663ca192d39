// Steps that work row by row: embedding, norms, activations, sums, copies, RoPE into KV pages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backend/cpu_step.h"
#include "backend/cpu_weights.h"
#include "tensor/kv_layout.h"

namespace remontoir {

// A step over the rows of one activation. The row's 8-bit form can be written on the way.
class RowStep : public Step {
 public:
  RowStep(const RoundState& round, const ActivationMatrix& out) : round_(round), out_(out) {}

  int32_t Begin() override;
  void RunTile(int32_t tile, int32_t worker) final;
  int32_t QuantiseOutputToo() final {
    quantise_ = true;
    return kAllRows;
  }

 protected:
  virtual void RunRow(int32_t row) = 0;
  const RoundState& round() const { return round_; }
  const KernelTable& kernels() const { return *round_.kernels; }
  const ActivationMatrix& out() const { return out_; }

 private:
  const RoundState& round_;
  const ActivationMatrix& out_;
  bool quantise_ = false;
  int32_t rows_per_tile_ = 1;
};

// Cos and sin of one RopeParams for the rows of a round.
class RopeTable {
 public:
  RopeTable(RopeParams params, int32_t rows_max);

  const RopeParams& params() const { return params_; }
  int32_t pairs() const { return static_cast<int32_t>(params_.frequencies.size()); }
  const float* CosRow(int32_t row) const { return cos_.data() + int64_t{row} * pairs(); }
  const float* SinRow(int32_t row) const { return sin_.data() + int64_t{row} * pairs(); }

  // Angles in double precision: position * frequency keeps its meaning at any position.
  void FillRow(int32_t row, int32_t position);

 private:
  RopeParams params_;
  std::vector<float> cos_, sin_;  // [rows_max][pairs]
};

// The kernel of out = activation(gate) * up.
using GateFunction = void (*)(const float* gate, const float* up, int64_t width, float* out);
GateFunction GateKernel(const KernelTable& kernels, GateKind kind);

std::unique_ptr<Step> MakeEmbedStep(const RoundState& round, const EmbeddingTable& table,
                                    float scale, const ActivationMatrix& out);
std::unique_ptr<Step> MakeNormStep(const RoundState& round, const ActivationMatrix& in,
                                   const float* weight, float epsilon, int32_t group_width,
                                   const ActivationMatrix& out);
std::unique_ptr<Step> MakeGateStep(const RoundState& round, const ActivationMatrix& gate,
                                   const ActivationMatrix& up, GateKind kind,
                                   const ActivationMatrix& out);
std::unique_ptr<Step> MakeSigmoidGateStep(const RoundState& round, const ActivationMatrix& gate,
                                          const ActivationMatrix& inout);
std::unique_ptr<Step> MakeAddStep(const RoundState& round, const ActivationMatrix& in,
                                  const ActivationMatrix& inout);
// inout += in; out = norm of inout.
std::unique_ptr<Step> MakeAddNormStep(const RoundState& round, const ActivationMatrix& in,
                                      const ActivationMatrix& inout, const float* weight,
                                      float epsilon, const ActivationMatrix& out);
std::unique_ptr<Step> MakeCopyHeadsStep(const RoundState& round, const CopyHeadsOp& op,
                                        const ActivationMatrix& in, const ActivationMatrix& out);
std::unique_ptr<Step> MakeGatherLogitRowsStep(const RoundState& round, const ActivationMatrix& in,
                                              const ActivationMatrix& out);
// Only writes the 8-bit form of `inout`, and that in rounds of more than `rows_done` rows.
std::unique_ptr<Step> MakeQuantiseStep(const RoundState& round, const ActivationMatrix& inout,
                                       int32_t rows_done);
std::unique_ptr<Step> MakeRopeAnglesStep(const RoundState& round, std::deque<RopeTable>& tables);
std::unique_ptr<Step> MakeRopeIntoKvStep(const RoundState& round, const RopeIntoKvOp& op,
                                         const KvLayout& layout, const RopeTable& table,
                                         const ActivationMatrix& queries,
                                         const ActivationMatrix& keys,
                                         const ActivationMatrix& values);

}  // namespace remontoir
