// What sparse attention changes in each layer by itself: its output beside the exact one, both from
// the queries, keys and values that the exact pass has there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/sparse_attention.h"
#include "kernels/kernel_table.h"

namespace remontoir {

// Of one layer. A row is a position and a query head; its error is the relative L2 distance of the
// sparse output from the exact one.
struct LayerError {
  int32_t layer = 0;
  int64_t rows = 0;
  double error_mean = 0;
  int32_t worst_head = 0;  // the query head with the largest mean
  double error_worst_head = 0;
  double error_max = 0;
  double residual_mean = 0;
  double residual_max = 0;
  double density = 0;     // chosen far blocks, as a part
  double alarm_rate = 0;  // rows with a missed alarm (eval/row_error.h), as a part
};

// Over all rows of all layers.
struct LayerSummary {
  double error_mean = 0;
  int32_t worst_layer = 0;  // the layer with the largest mean
  double error_worst_layer = 0;
  double density = 0;  // mean of layers
  double alarm_rate = 0;
};
LayerSummary Summarise(std::span<const LayerError> layers);

// One layer's rows, added up.
class LayerErrorMeter {
 public:
  explicit LayerErrorMeter(int32_t heads);

  void AddRow(int32_t head, double error, double residual);
  void AddBlocks(const SparseCounts& counts);
  LayerError Get(int32_t layer) const;

 private:
  std::vector<double> head_errors_;  // sums
  std::vector<int64_t> head_rows_;
  double residuals_ = 0;
  double residual_max_ = 0;
  double error_max_ = 0;
  int64_t alarms_ = 0;
  int64_t far_blocks_ = 0;
  int64_t chosen_blocks_ = 0;
};

// The positions at which layers are looked at, ascending, in groups as attention takes them.
struct LayerSample {
  int32_t group_positions = 1;     // 8: as a prompt is read, 1: as single tokens are
  std::vector<int32_t> positions;  // whole groups
};

// At most positions_max positions of [first, end), in whole groups, evenly spaced.
LayerSample SamplePositions(int32_t first, int32_t end, int32_t group_positions,
                            int32_t positions_max);

// Collects queries from the exact pass of one sequence, and measures when its keys are complete.
class LayerProbe {
 public:
  LayerProbe(const KernelTable& kernels, LayerSample sample);

  // An attention operation of a round with one sequence, in the order of positions. Layers that are
  // never sparse are left out.
  void Observe(const AttentionBatch& batch);

  // After the last round, while the sequence's pages are as they were. Layers in their order.
  std::vector<LayerError> Measure(const SparseSettings& settings, int32_t block_keys) const;

 private:
  struct Layer {
    int32_t layer = 0;
    int32_t heads = 0;
    float scale = 1;
    std::vector<float> queries;  // [sampled positions so far][heads * key_width]
  };

  std::vector<AttentionRow> RowsOf(const Layer& layer, size_t at, int32_t first_head,
                                   int32_t heads) const;
  void MeasureHead(const Layer& layer, int32_t kv_head, const SparseSettings& settings,
                   int32_t block_keys, LayerErrorMeter& meter) const;

  const KernelTable& kernels_;
  const LayerSample sample_;
  std::vector<Layer> layers_;
  const KvLayout* layout_ = nullptr;
  KvPages pages_;
  std::vector<KvPageId> page_table_;
};

}  // namespace remontoir
