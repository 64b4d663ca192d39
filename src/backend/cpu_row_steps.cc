// The row-wise steps: each row is one call or a few of a kernel.
#include "backend/cpu_row_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/dequantise.h"
#include "kernels/routing.h"

namespace remontoir {
namespace {

// Values of a tile: some microseconds of work, and it fits the first-level cache.
constexpr int64_t kTileValues = 4096;

int32_t RowsPerTile(int64_t width) {
  return static_cast<int32_t>(std::max<int64_t>(1, kTileValues / width));
}

int32_t TilesOf(int32_t rows, int32_t rows_per_tile) {
  return (rows + rows_per_tile - 1) / rows_per_tile;
}

class EmbedStep final : public RowStep {
 public:
  EmbedStep(const RoundState& round, const EmbeddingTable& table, float scale,
            const ActivationMatrix& out)
      : RowStep(round, out),
        table_(table.view),
        row_bytes_(RowBytes(table.view.type, table.view.columns())),
        scale_(scale) {}

 private:
  void RunRow(int32_t row) override {
    const int32_t token = round().inputs.tokens[static_cast<size_t>(row)];
    REM_CHECK(token >= 0 && token < table_.rows(), "a token of the embedding table");
    float* values = out().Row(row);
    DequantiseRow(table_.type, table_.data + token * row_bytes_, out().width, values);
    if (scale_ != 1.0f) kernels().scale(scale_, out().width, values);
  }

  const TensorView table_;
  const int64_t row_bytes_;
  const float scale_;
};

class NormStep final : public RowStep {
 public:
  NormStep(const RoundState& round, const ActivationMatrix& in, const float* weight, float epsilon,
           int32_t group_width, const ActivationMatrix& out)
      : RowStep(round, out),
        in_(in),
        weight_(weight),
        epsilon_(epsilon),
        group_width_(group_width) {}

 private:
  void RunRow(int32_t row) override {
    const float* in = in_.Row(row);
    float* values = out().Row(row);
    for (int64_t begin = 0; begin < out().width; begin += group_width_) {
      kernels().rms_norm(in + begin, weight_, epsilon_, group_width_, values + begin);
    }
  }

  const ActivationMatrix& in_;
  const float* weight_;
  const float epsilon_;
  const int32_t group_width_;
};

class GateStep final : public RowStep {
 public:
  GateStep(const RoundState& round, const ActivationMatrix& gate, const ActivationMatrix& up,
           GateKind kind, const ActivationMatrix& out)
      : RowStep(round, out), gate_(gate), up_(up), kernel_(GateKernel(kernels(), kind)) {}

 private:
  void RunRow(int32_t row) override {
    kernel_(gate_.Row(row), up_.Row(row), out().width, out().Row(row));
  }

  const ActivationMatrix& gate_;
  const ActivationMatrix& up_;
  const GateFunction kernel_;
};

class SigmoidGateStep final : public RowStep {
 public:
  SigmoidGateStep(const RoundState& round, const ActivationMatrix& gate,
                  const ActivationMatrix& inout)
      : RowStep(round, inout), gate_(gate) {}

 private:
  void RunRow(int32_t row) override {
    kernels().scale(Sigmoid(*gate_.Row(row)), out().width, out().Row(row));
  }

  const ActivationMatrix& gate_;
};

// The sum, and while the row is in cache its norm.
class AddNormStep final : public RowStep {
 public:
  AddNormStep(const RoundState& round, const ActivationMatrix& in, const ActivationMatrix& inout,
              const float* weight, float epsilon, const ActivationMatrix& out)
      : RowStep(round, out), in_(in), inout_(inout), weight_(weight), epsilon_(epsilon) {}

 private:
  void RunRow(int32_t row) override {
    kernels().add(in_.Row(row), out().width, inout_.Row(row));
    kernels().rms_norm(inout_.Row(row), weight_, epsilon_, out().width, out().Row(row));
  }

  const ActivationMatrix& in_;
  const ActivationMatrix& inout_;
  const float* weight_;
  const float epsilon_;
};

class AddStep final : public RowStep {
 public:
  AddStep(const RoundState& round, const ActivationMatrix& in, const ActivationMatrix& inout)
      : RowStep(round, inout), in_(in) {}

 private:
  void RunRow(int32_t row) override { kernels().add(in_.Row(row), out().width, out().Row(row)); }

  const ActivationMatrix& in_;
};

class CopyHeadsStep final : public RowStep {
 public:
  CopyHeadsStep(const RoundState& round, const CopyHeadsOp& op, const ActivationMatrix& in,
                const ActivationMatrix& out)
      : RowStep(round, out), op_(op), in_(in) {}

 private:
  void RunRow(int32_t row) override {
    const int64_t in_run = in_.width / op_.heads;
    const int64_t out_run = out().width / op_.heads;
    for (int32_t head = 0; head < op_.heads; ++head) {
      std::memcpy(out().Row(row) + head * out_run + op_.out_begin,
                  in_.Row(row) + head * in_run + op_.in_begin,
                  static_cast<size_t>(op_.width) * sizeof(float));
    }
  }

  const CopyHeadsOp op_;
  const ActivationMatrix& in_;
};

class GatherLogitRowsStep final : public RowStep {
 public:
  GatherLogitRowsStep(const RoundState& round, const ActivationMatrix& in,
                      const ActivationMatrix& out)
      : RowStep(round, out), in_(in) {}

 private:
  void RunRow(int32_t row) override {
    const int32_t token_row = round().inputs.logit_rows[static_cast<size_t>(row)];
    std::memcpy(out().Row(row), in_.Row(token_row),
                static_cast<size_t>(out().width) * sizeof(float));
  }

  const ActivationMatrix& in_;
};

class QuantiseStep final : public RowStep {
 public:
  QuantiseStep(const RoundState& round, const ActivationMatrix& inout, int32_t rows_done)
      : RowStep(round, inout), rows_done_(rows_done) {
    QuantiseOutputToo();
  }

  int32_t Begin() override {
    return round().Rows(out().space) <= rows_done_ ? 0 : RowStep::Begin();
  }

 private:
  void RunRow(int32_t) override {}

  const int32_t rows_done_;
};

class RopeAnglesStep final : public Step {
 public:
  RopeAnglesStep(const RoundState& round, std::deque<RopeTable>& tables)
      : round_(round), tables_(tables) {
    int64_t pairs = 1;
    for (const RopeTable& table : tables_) pairs += table.pairs();
    rows_per_tile_ = RowsPerTile(pairs * kValuesPerPair);
  }

  int32_t Begin() override { return TilesOf(round_.Rows(RowSpace::kTokens), rows_per_tile_); }

  void RunTile(int32_t tile, int32_t) override {
    const int32_t end = std::min((tile + 1) * rows_per_tile_, round_.Rows(RowSpace::kTokens));
    for (int32_t row = tile * rows_per_tile_; row < end; ++row) {
      const int32_t position = round_.inputs.positions[static_cast<size_t>(row)];
      for (RopeTable& table : tables_) table.FillRow(row, position);
    }
  }

 private:
  static constexpr int64_t kValuesPerPair = 32;  // a sine costs some tens of simple values

  const RoundState& round_;
  std::deque<RopeTable>& tables_;
  int32_t rows_per_tile_ = 1;
};

class RopeIntoKvStep final : public Step {
 public:
  RopeIntoKvStep(const RoundState& round, const RopeIntoKvOp& op, const KvLayout& layout,
                 const RopeTable& table, const ActivationMatrix& queries,
                 const ActivationMatrix& keys, const ActivationMatrix& values)
      : round_(round),
        layout_(layout),
        shape_(layout.layer(op.layer)),
        table_(table),
        queries_(queries),
        keys_(keys),
        values_(values),
        layer_(op.layer),
        heads_(op.heads),
        rotary_begin_(op.rotary_begin),
        rotate_(op.rope.pairing == RopePairing::kInterleaved ? round.kernels->rope_interleaved
                                                             : round.kernels->rope_halves),
        rows_per_tile_(RowsPerTile(queries.width + keys.width + values.width)) {}

  int32_t Begin() override { return TilesOf(round_.Rows(RowSpace::kTokens), rows_per_tile_); }

  void RunTile(int32_t tile, int32_t) override {
    const int32_t end = std::min((tile + 1) * rows_per_tile_, round_.Rows(RowSpace::kTokens));
    for (int32_t row = tile * rows_per_tile_; row < end; ++row) RunRow(row);
  }

 private:
  void RunRow(int32_t row) {
    const KernelTable& kernels = *round_.kernels;
    const int pairs = table_.pairs();
    const float* cos = table_.CosRow(row);
    const float* sin = table_.SinRow(row);
    if (pairs > 0) {
      float* query = queries_.Row(row) + rotary_begin_;
      for (int32_t head = 0; head < heads_; ++head) {
        rotate_(query + int64_t{head} * shape_.key_width, pairs, cos, sin);
      }
    }
    const KvSlot& slot = round_.kv_slots[static_cast<size_t>(row)];
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      float* key = keys_.Row(row) + int64_t{head} * shape_.key_width;
      const float* value = values_.Row(row) + int64_t{head} * shape_.value_width;
      if (pairs > 0) rotate_(key + rotary_begin_, pairs, cos, sin);
      kernels.store_key(key, shape_.key_width, shape_.type, slot.slot,
                        slot.page + layout_.key_offset(layer_, head));
      kernels.store_value(value, shape_.value_width, shape_.type, slot.slot,
                          slot.page + layout_.value_offset(layer_, head));
    }
  }

  const RoundState& round_;
  const KvLayout& layout_;
  const KvLayerShape shape_;
  const RopeTable& table_;
  const ActivationMatrix& queries_;
  const ActivationMatrix& keys_;
  const ActivationMatrix& values_;
  const int32_t layer_;
  const int32_t heads_;
  const int32_t rotary_begin_;
  void (*const rotate_)(float*, int, const float*, const float*);
  const int32_t rows_per_tile_;
};

}  // namespace

int32_t RowStep::Begin() {
  // Tiles of nearly equal height: 8 rows go as 4 + 4 where 7 fit.
  const int32_t rows = round_.Rows(out_.space);
  const int32_t tiles = std::max(1, TilesOf(rows, RowsPerTile(out_.width)));
  rows_per_tile_ = std::max(1, TilesOf(rows, tiles));
  return TilesOf(rows, rows_per_tile_);
}

void RowStep::RunTile(int32_t tile, int32_t) {
  const int32_t end = std::min((tile + 1) * rows_per_tile_, round_.Rows(out_.space));
  for (int32_t row = tile * rows_per_tile_; row < end; ++row) {
    RunRow(row);
    if (quantise_) QuantiseValues(kernels(), out_, row, 0, out_.width);
  }
}

RopeTable::RopeTable(RopeParams params, int32_t rows_max) : params_(std::move(params)) {
  const size_t values = params_.frequencies.size() * static_cast<size_t>(rows_max);
  cos_.resize(values);
  sin_.resize(values);
}

void RopeTable::FillRow(int32_t row, int32_t position) {
  const size_t begin = static_cast<size_t>(row) * params_.frequencies.size();
  for (size_t i = 0; i < params_.frequencies.size(); ++i) {
    const double angle = static_cast<double>(position) * params_.frequencies[i];
    cos_[begin + i] = static_cast<float>(std::cos(angle) * params_.magnitude);
    sin_[begin + i] = static_cast<float>(std::sin(angle) * params_.magnitude);
  }
}

GateFunction GateKernel(const KernelTable& kernels, GateKind kind) {
  switch (kind) {
    case GateKind::kSilu: return kernels.silu_gate;
    case GateKind::kGeluTanh: return kernels.gelu_tanh_gate;
    case GateKind::kClampedSwiglu: return kernels.clamped_swiglu_gate;
  }
  REM_CHECK(false, "unknown gate");
}

std::unique_ptr<Step> MakeEmbedStep(const RoundState& round, const EmbeddingTable& table,
                                    float scale, const ActivationMatrix& out) {
  return std::make_unique<EmbedStep>(round, table, scale, out);
}

std::unique_ptr<Step> MakeNormStep(const RoundState& round, const ActivationMatrix& in,
                                   const float* weight, float epsilon, int32_t group_width,
                                   const ActivationMatrix& out) {
  return std::make_unique<NormStep>(round, in, weight, epsilon, group_width, out);
}

std::unique_ptr<Step> MakeGateStep(const RoundState& round, const ActivationMatrix& gate,
                                   const ActivationMatrix& up, GateKind kind,
                                   const ActivationMatrix& out) {
  return std::make_unique<GateStep>(round, gate, up, kind, out);
}

std::unique_ptr<Step> MakeSigmoidGateStep(const RoundState& round, const ActivationMatrix& gate,
                                          const ActivationMatrix& inout) {
  return std::make_unique<SigmoidGateStep>(round, gate, inout);
}

std::unique_ptr<Step> MakeAddStep(const RoundState& round, const ActivationMatrix& in,
                                  const ActivationMatrix& inout) {
  return std::make_unique<AddStep>(round, in, inout);
}

std::unique_ptr<Step> MakeAddNormStep(const RoundState& round, const ActivationMatrix& in,
                                      const ActivationMatrix& inout, const float* weight,
                                      float epsilon, const ActivationMatrix& out) {
  return std::make_unique<AddNormStep>(round, in, inout, weight, epsilon, out);
}

std::unique_ptr<Step> MakeCopyHeadsStep(const RoundState& round, const CopyHeadsOp& op,
                                        const ActivationMatrix& in, const ActivationMatrix& out) {
  return std::make_unique<CopyHeadsStep>(round, op, in, out);
}

std::unique_ptr<Step> MakeGatherLogitRowsStep(const RoundState& round, const ActivationMatrix& in,
                                              const ActivationMatrix& out) {
  return std::make_unique<GatherLogitRowsStep>(round, in, out);
}

std::unique_ptr<Step> MakeQuantiseStep(const RoundState& round, const ActivationMatrix& inout,
                                       int32_t rows_done) {
  return std::make_unique<QuantiseStep>(round, inout, rows_done);
}

std::unique_ptr<Step> MakeRopeAnglesStep(const RoundState& round, std::deque<RopeTable>& tables) {
  return std::make_unique<RopeAnglesStep>(round, tables);
}

std::unique_ptr<Step> MakeRopeIntoKvStep(const RoundState& round, const RopeIntoKvOp& op,
                                         const KvLayout& layout, const RopeTable& table,
                                         const ActivationMatrix& queries,
                                         const ActivationMatrix& keys,
                                         const ActivationMatrix& values) {
  return std::make_unique<RopeIntoKvStep>(round, op, layout, table, queries, keys, values);
}

}  // namespace remontoir
