// Checks tensors, packs them on all workers and hands them out by shape.
#include "backend/cpu_weights.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "kernels/dequantise.h"
#include "tensor/dtype.h"

namespace remontoir {
namespace {

constexpr int64_t kWeightAlignment = 64;
constexpr int64_t kRegionBytes = int64_t{64} << 20;  // small tensors share regions of this size
constexpr int64_t kWidthMax = std::numeric_limits<int32_t>::max();

std::string ShapeText(const TensorView& view) {
  std::string text;
  for (int i = std::max(view.rank, 1) - 1; i >= 0; --i) {
    text += "[" + std::to_string(view.shape[static_cast<size_t>(i)]) + "]";
  }
  return text;
}

// What every tensor needs: `rank` dimensions of sensible widths, whole blocks, all its bytes.
Status CheckTensor(const TensorView& view, const std::string& name, int rank) {
  if (view.rank != rank) {
    return InvalidArgument("tensor " + name + ": " + ShapeText(view) + " has rank " +
                           std::to_string(view.rank) + ", wanted " + std::to_string(rank));
  }
  int64_t rows = 1;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    const int64_t width = view.shape[i];
    const bool used = static_cast<int>(i) < rank;
    if (width < 1 || width > kWidthMax || (!used && width != 1) || (i > 0 && rows > kWidthMax)) {
      return InvalidArgument("tensor " + name + ": impossible shape " + ShapeText(view));
    }
    if (i > 0) rows *= width;
  }
  const int64_t block = Info(view.type).block_elements;
  if (view.columns() % block != 0) {
    return InvalidArgument("tensor " + name + ": rows of " + std::to_string(view.columns()) +
                           " values are no whole blocks of " + std::to_string(block));
  }
  const int64_t row_bytes = RowBytes(view.type, view.columns());
  if (view.data == nullptr || view.size_bytes / row_bytes < rows) {
    return InvalidArgument("tensor " + name + ": its bytes are missing");
  }
  return Status::Ok();
}

Status WrongKind(const std::string& name, const char* wanted) {
  return InvalidArgument("tensor " + name + ": used as " + wanted + " but loaded as another kind");
}

}  // namespace

Result<WeightId> CpuWeights::AddMatrix(const TensorView& view, const std::string& name) {
  REM_RETURN_IF_ERROR(CheckTensor(view, name, 2));
  return Pack(view, name, 1);
}

Result<WeightId> CpuWeights::AddExpertMatrices(const TensorView& view, const std::string& name) {
  REM_RETURN_IF_ERROR(CheckTensor(view, name, 3));
  return Pack(view, name, view.shape[2]);
}

Result<WeightId> CpuWeights::AddVector(const TensorView& view, const std::string& name) {
  REM_RETURN_IF_ERROR(CheckTensor(view, name, 1));
  WeightVector vector{name, std::vector<float>(static_cast<size_t>(view.columns()))};
  DequantiseRow(view.type, view.data, view.columns(), vector.values.data());
  bytes_ += view.columns() * static_cast<int64_t>(sizeof(float));
  return Append(std::move(vector));
}

Result<WeightId> CpuWeights::AddEmbedding(const TensorView& view, const std::string& name) {
  REM_RETURN_IF_ERROR(CheckTensor(view, name, 2));
  return Append(EmbeddingTable{name, view});
}

Result<WeightId> CpuWeights::Pack(const TensorView& view, const std::string& name,
                                  int64_t experts) {
  PackedMatrices matrices{name, PlanPacking(view.type, view.shape[1], view.columns(), float32_),
                          static_cast<int32_t>(experts), nullptr};
  const PackedLayout& layout = matrices.layout;
  Result<std::byte*> taken = TakeBytes(layout.bytes() * experts);
  if (!taken.ok()) return taken.status().WithContext("tensor " + name);
  std::byte* packed = *taken;
  const int64_t file_bytes = RowBytes(view.type, view.columns()) * view.shape[1];
  const int64_t panels = layout.panel_count();
  const int64_t all_panels = panels * experts;
  // Some hundred kilobytes a task: enough to be worth handing out.
  const int64_t run = std::max<int64_t>(1, (int64_t{256} << 10) / layout.panel_bytes);
  const int64_t runs_per_expert = (panels + run - 1) / run;
  if (all_panels > kWidthMax) return InvalidArgument("tensor " + name + ": too many rows");
  pool_.ParallelFor(static_cast<int32_t>(runs_per_expert * experts), [&](int32_t task) {
    const int64_t expert = task / runs_per_expert;
    const int64_t begin = task % runs_per_expert * run;
    PackPanels(layout, view.type, view.data + expert * file_bytes, begin,
               std::min(begin + run, panels), packed + expert * layout.bytes());
  });
  matrices.data = packed;
  return Append(std::move(matrices));
}

Result<std::byte*> CpuWeights::TakeBytes(int64_t bytes) {
  const int64_t rounded = (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  if (regions_.empty() || regions_.back().size_bytes() - region_used_ < rounded) {
    REM_ASSIGN_OR_RETURN(MemoryRegion region,
                         MemoryRegion::Take(std::max(rounded, kRegionBytes), "weights"));
    regions_.push_back(std::move(region));
    region_used_ = 0;
  }
  std::byte* start = regions_.back().data() + region_used_;
  region_used_ += rounded;
  bytes_ += rounded;
  return start;
}

WeightId CpuWeights::Append(Weight weight) {
  weights_.push_back(std::move(weight));
  return WeightId(static_cast<int32_t>(weights_.size()) - 1);
}

Result<const CpuWeights::Weight*> CpuWeights::Find(WeightId id) const {
  const auto index = static_cast<size_t>(id);
  if (index >= weights_.size()) return InvalidArgument("an operation without its weight");
  return &weights_[index];
}

Result<const PackedMatrices*> CpuWeights::Matrices(WeightId id, int32_t experts, int64_t out_width,
                                                   int64_t in_width) const {
  REM_ASSIGN_OR_RETURN(const Weight* weight, Find(id));
  const auto* matrices = std::get_if<PackedMatrices>(weight);
  if (matrices == nullptr) {
    return WrongKind(std::visit([](const auto& w) { return w.name; }, *weight), "a matrix");
  }
  const PackedLayout& layout = matrices->layout;
  if (layout.out_width != out_width || layout.in_width != in_width ||
      matrices->experts != experts) {
    const auto shape = [](int64_t n, int64_t rows, int64_t columns) {
      return "[" + std::to_string(n) + "][" + std::to_string(rows) + "][" +
             std::to_string(columns) + "]";
    };
    return InvalidArgument("tensor " + matrices->name + ": shape " +
                           shape(matrices->experts, layout.out_width, layout.in_width) +
                           ", wanted " + shape(experts, out_width, in_width));
  }
  return matrices;
}

Result<const float*> CpuWeights::Vector(WeightId id, int64_t width) const {
  REM_ASSIGN_OR_RETURN(const Weight* weight, Find(id));
  const auto* vector = std::get_if<WeightVector>(weight);
  if (vector == nullptr) {
    return WrongKind(std::visit([](const auto& w) { return w.name; }, *weight), "a vector");
  }
  if (static_cast<int64_t>(vector->values.size()) != width) {
    return InvalidArgument("tensor " + vector->name + ": " + std::to_string(vector->values.size()) +
                           " values, wanted " + std::to_string(width));
  }
  return vector->values.data();
}

Result<const EmbeddingTable*> CpuWeights::Embedding(WeightId id, int64_t width) const {
  REM_ASSIGN_OR_RETURN(const Weight* weight, Find(id));
  const auto* table = std::get_if<EmbeddingTable>(weight);
  if (table == nullptr) {
    return WrongKind(std::visit([](const auto& w) { return w.name; }, *weight), "an embedding");
  }
  if (table->view.columns() != width) {
    return InvalidArgument("tensor " + table->name + ": rows of " +
                           std::to_string(table->view.columns()) + " values, wanted " +
                           std::to_string(width));
  }
  return table;
}

}  // namespace remontoir
