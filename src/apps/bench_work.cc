// Counts operations and bytes from the shapes of the tensors.
#include "apps/bench_work.h"

#include <algorithm>

#include "kernels/packing.h"
#include "tensor/kv_layout.h"

namespace remontoir {
namespace {

// Adds the matrix (or the matrices, one an expert, of which a row uses `share`).
void AddMatrix(const TensorView& view, double share, bool float32, MatrixWork* work) {
  const PackedLayout layout = PlanPacking(view.type, view.rows(), view.columns(), float32);
  const double ops = 2.0 * share * static_cast<double>(view.rows() * view.columns());
  (IsFloatFormat(layout.format) ? work->f32_ops_per_row : work->int8_ops_per_row) += ops;
  work->bytes += static_cast<double>(layout.bytes());
}

// Keys that rows [first, first + rows) see in all.
double VisiblePairs(int32_t first, int32_t rows, int32_t window) {
  double pairs = 0;
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t keys = first + row + 1;
    pairs += window > 0 ? std::min(keys, window) : keys;
  }
  return pairs;
}

// Keys that some row of the sequence sees.
double VisibleKeys(const SequenceRows& rows, int32_t window) {
  const int32_t keys = rows.first_position + rows.rows;
  return window > 0 ? std::min(keys, window + rows.rows - 1) : keys;
}

}  // namespace

ModelWork DescribeWork(const ModelInfo& info, DType kv_type, bool float32) {
  const ModelShape& shape = info.shape;
  ModelWork work;
  work.expert_share_per_row =
      shape.experts > 0 ? static_cast<double>(shape.experts_used) / shape.experts : 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int i = 0; i < kTensorRoleCount; ++i) {
      const auto role = static_cast<TensorRole>(i);
      const TensorInfo* tensor = info.tensors.Layer(layer, role);
      if (tensor == nullptr || tensor->view.rank < 2) continue;
      if (IsExpertMatrix(role)) {
        AddMatrix(tensor->view, work.expert_share_per_row, float32, &work.experts);
      } else {
        AddMatrix(tensor->view, 1, float32, &work.layers);
      }
    }
    work.window_by_layer.push_back(shape.IsWindowed(layer) ? shape.window : 0);
  }
  const TensorInfo* output = info.tensors.Global(TensorRole::kOutput);
  if (output == nullptr) output = info.tensors.Global(TensorRole::kTokenEmbedding);
  AddMatrix(output->view, 1, float32, &work.output);
  work.attention_ops_per_key = 2.0 * shape.heads * (shape.key_width + shape.value_width);
  work.kv_bytes_per_key =
      static_cast<double>(shape.kv_heads * (KvPartBytes(kv_type, shape.key_width) +
                                            KvPartBytes(kv_type, shape.value_width))) /
      kKvPageTokens;
  return work;
}

BenchWork& BenchWork::operator+=(const BenchWork& other) {
  int8_ops += other.int8_ops;
  f32_ops += other.f32_ops;
  attention_ops += other.attention_ops;
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  return *this;
}

BenchWork WorkOfRound(const ModelWork& model, std::span<const SequenceRows> sequences,
                      std::optional<double> experts_read) {
  BenchWork work;
  double rows = 0;
  double logit_rows = 0;
  for (const SequenceRows& sequence : sequences) {
    rows += sequence.rows;
    logit_rows += sequence.logit_rows;
    for (const int32_t window : model.window_by_layer) {
      work.attention_ops += model.attention_ops_per_key *
                            VisiblePairs(sequence.first_position, sequence.rows, window);
      work.kv_bytes += model.kv_bytes_per_key * VisibleKeys(sequence, window);
    }
  }
  work.int8_ops = rows * (model.layers.int8_ops_per_row + model.experts.int8_ops_per_row) +
                  logit_rows * model.output.int8_ops_per_row;
  work.f32_ops = rows * (model.layers.f32_ops_per_row + model.experts.f32_ops_per_row) +
                 logit_rows * model.output.f32_ops_per_row;
  work.weight_bytes = model.layers.bytes +
                      model.experts.bytes *
                          experts_read.value_or(std::min(1.0, rows * model.expert_share_per_row)) +
                      (logit_rows > 0 ? model.output.bytes : 0);
  return work;
}

double CeilingSeconds(const BenchWork& work, const Ceilings& ceilings) {
  const double multiply =
      work.int8_ops / ceilings.int8_ops_per_second + work.f32_ops / ceilings.f32_ops_per_second;
  const double products = std::max(multiply, work.weight_bytes / ceilings.read_bytes_per_second);
  const double attention = std::max(work.attention_ops / ceilings.f32_ops_per_second,
                                    work.kv_bytes / ceilings.read_bytes_per_second);
  return products + attention;
}

}  // namespace remontoir
