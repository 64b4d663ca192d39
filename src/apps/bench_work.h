// What a round must at least compute and read, and how long that takes at the machine's ceilings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/bench_ceilings.h"
#include "model/model_info.h"

namespace remontoir {

struct MatrixWork {
  double int8_ops_per_row = 0;  // quantised weights
  double f32_ops_per_row = 0;   // float weights
  double bytes = 0;             // packed
};

// The parts of a model that cost something.
struct ModelWork {
  MatrixWork layers;   // dense matrices of all layers
  MatrixWork experts;  // expert matrices of all layers; ops of the experts that one row uses
  MatrixWork output;   // only rows whose logits are wanted
  double expert_share_per_row = 0;       // of the expert matrices' bytes
  double attention_ops_per_key = 0;      // of one row and layer
  double kv_bytes_per_key = 0;           // of one layer
  std::vector<int32_t> window_by_layer;  // 0: all keys
};

// kv_type is the element type of the KV pages; float32: every matrix is kept in float32.
ModelWork DescribeWork(const ModelInfo& info, DType kv_type, bool float32);

struct SequenceRows {
  int32_t first_position = 0;
  int32_t rows = 0;
  int32_t logit_rows = 0;
};

// Sums over rounds of one kind.
struct BenchWork {
  double int8_ops = 0;
  double f32_ops = 0;        // of matrix products
  double attention_ops = 0;  // float32
  double weight_bytes = 0;
  double kv_bytes = 0;  // keys and values read, each once a round and sequence

  double ops() const { return int8_ops + f32_ops + attention_ops; }
  double bytes() const { return weight_bytes + kv_bytes; }
  BenchWork& operator+=(const BenchWork& other);
};

// experts_read: the share of the expert matrices that the round read; unknown: as if each row chose
// others, while there are some.
BenchWork WorkOfRound(const ModelWork& model, std::span<const SequenceRows> sequences,
                      std::optional<double> experts_read = std::nullopt);

// Products take what reading the weights or multiplying takes, whichever is longer; attention what
// reading keys and values or multiplying takes.
double CeilingSeconds(const BenchWork& work, const Ceilings& ceilings);

}  // namespace remontoir
