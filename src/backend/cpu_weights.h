// Weights as the CPU back end keeps them: matrices packed in panels, vectors in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "backend/content_hash.h"
#include "backend/memory_region.h"
#include "backend/program.h"
#include "backend/repack_cache.h"
#include "base/status.h"
#include "base/worker_pool.h"
#include "kernels/packing.h"
#include "tensor/tensor_view.h"

namespace remontoir {

// One matrix, or one an expert, each packed by itself.
struct PackedMatrices {
  std::string name;
  PackedLayout layout;
  int32_t experts = 1;
  const std::byte* data = nullptr;  // null: mapped
  // Mapped matrices stay in the file, in its own format: a product packs each panel that it needs.
  TensorView mapped = {};

  bool is_mapped() const { return data == nullptr; }
  const std::byte* Panel(int64_t expert, int64_t panel) const {
    return data + expert * layout.bytes() + panel * layout.panel_bytes;
  }
  // The file's rows of an expert of mapped matrices.
  const std::byte* MappedRows(int64_t expert) const {
    return mapped.data + expert * RowBytes(mapped.type, layout.in_width) * layout.out_width;
  }
};

struct WeightVector {
  std::string name;
  std::vector<float> values;
};

// Rows are dequantised where they lie in the file.
struct EmbeddingTable {
  std::string name;
  TensorView view;
};

class CpuWeights {
 public:
  // With `float32` every matrix is packed as float32; with `experts_mapped` experts' matrices are
  // not packed at all: their views stay as long as this.
  CpuWeights(WorkerPool& pool, bool float32, bool experts_mapped = false)
      : pool_(pool), float32_(float32), experts_mapped_(experts_mapped) {}

  Result<WeightId> AddMatrix(const TensorView& view, const std::string& name);
  Result<WeightId> AddExpertMatrices(const TensorView& view, const std::string& name);
  Result<WeightId> AddHeadMatrices(const TensorView& view, const std::string& name);
  Result<WeightId> AddVector(const TensorView& view, const std::string& name);
  Result<WeightId> AddEmbedding(const TensorView& view, const std::string& name);

  // Fills the panels of every matrix, from the cache where it has them, else from the views; then
  // the cache gets them. Until then matrices are all zeros.
  WeightsReport Pack(const RepackCache& cache, const WeightsRead& on_read);

  // The weight behind an id, if it is of this kind and shape; else an error that names the tensor.
  // Pointers stay valid while no more weights are added.
  Result<const PackedMatrices*> Matrices(WeightId id, int32_t experts, int64_t out_width,
                                         int64_t in_width) const;
  Result<const float*> Vector(WeightId id, int64_t width) const;
  Result<const EmbeddingTable*> Embedding(WeightId id, int64_t width) const;
  // Reads a byte of each of their system pages, so that no row's first use faults while the file
  // stays in memory.
  void TouchEmbeddings() const;

  int64_t bytes() const { return bytes_; }
  // What a worker needs to pack a panel of any mapped matrix; 0: none is mapped.
  int64_t mapped_panel_bytes_max() const { return mapped_panel_bytes_max_; }

 private:
  using Weight = std::variant<PackedMatrices, WeightVector, EmbeddingTable>;

  // A matrix that waits for Pack.
  struct Source {
    WeightId id;
    TensorView view;
    PackedLayout layout;
    int64_t experts = 1;
    std::byte* packed = nullptr;

    std::span<const std::byte> bytes() const;
    std::span<std::byte> panels() const;
  };
  // Calls on_read, counting the bytes of every time that the sources are gone through.
  class ReadMeter;

  Result<WeightId> Add(const TensorView& view, const std::string& name, int64_t experts,
                       bool mapped = false);
  ContentHash KeyOfSources(ReadMeter& meter);
  void PackSources(ReadMeter& meter);
  Result<std::byte*> TakeBytes(int64_t bytes);
  WeightId Append(Weight weight);
  Result<const Weight*> Find(WeightId id) const;

  WorkerPool& pool_;
  const bool float32_;
  const bool experts_mapped_;
  std::vector<Weight> weights_;
  std::vector<Source> sources_;
  std::vector<MemoryRegion> regions_;  // filled one after the other
  int64_t region_used_ = 0;            // bytes of the last region
  int64_t bytes_ = 0;
  int64_t mapped_panel_bytes_max_ = 0;
};

}  // namespace remontoir
