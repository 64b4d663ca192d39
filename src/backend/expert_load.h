// What experts had to compute since the start, for /metrics and for benches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/program.h"
#include "metrics/metric_set.h"

namespace remontoir {

// Counted by the steps of a round, read by any thread at any time.
class ExpertLoad : public MetricSet {
 public:
  // Rows of a model of so many experts in these layers, ascending. One counter a layer and expert
  // where they are no more than kSamplesMax, else one an expert, with the layer "all"; with still
  // more experts only the sums below.
  ExpertLoad(std::span<const int32_t> layers, int32_t experts);

  // What CountRows wants for a layer of the list.
  int32_t PlaceOf(int32_t layer) const;
  void CountRows(int32_t place, int32_t expert, int64_t rows) {
    if (rows_ != nullptr) {
      rows_->At(static_cast<size_t>(place), static_cast<size_t>(expert)).Add(rows);
    }
  }

  int32_t layers() const { return static_cast<int32_t>(layers_.size()); }
  int32_t experts() const { return experts_; }

  // Sums over rounds, layers and, of rows, matrices. Shares of them say what grouping is worth.
  Counter experts_read;     // experts whose matrices a layer of a round read
  Counter rows_wanted;      // that tokens sent to experts
  Counter rows_multiplied;  // that products computed, padding included

 private:
  const std::vector<int32_t> layers_;
  const int32_t experts_;
  bool all_layers_ = false;
  CounterTable* rows_ = nullptr;
};

// For the layers and experts that a program routes to; null: none.
std::unique_ptr<ExpertLoad> MakeExpertLoad(const Program& program);

}  // namespace remontoir
