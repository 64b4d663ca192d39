// Checks tensors, packs them on all workers or fetches them packed, and hands them out by shape.
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
constexpr int64_t kTaskBytes = int64_t{256} << 10;   // of panels, that one worker packs
constexpr int64_t kBatchBytes = int64_t{32} << 20;   // worked through between two reports
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
  return Add(view, name, 1);
}

Result<WeightId> CpuWeights::AddExpertMatrices(const TensorView& view, const std::string& name) {
  REM_RETURN_IF_ERROR(CheckTensor(view, name, 3));
  return Add(view, name, view.shape[2], experts_mapped_);
}

Result<WeightId> CpuWeights::AddHeadMatrices(const TensorView& view, const std::string& name) {
  REM_RETURN_IF_ERROR(CheckTensor(view, name, 3));
  return Add(view, name, view.shape[2]);
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

Result<WeightId> CpuWeights::Add(const TensorView& view, const std::string& name, int64_t experts,
                                 bool mapped) {
  PackedMatrices matrices{name,
                          PlanPacking(view.type, view.shape[1], view.columns(), float32_),
                          static_cast<int32_t>(experts),
                          nullptr,
                          {}};
  const PackedLayout& layout = matrices.layout;
  if (layout.panel_count() * experts > kWidthMax) {
    return InvalidArgument("tensor " + name + ": too many rows");
  }
  if (mapped) {
    matrices.mapped = view;
    mapped_panel_bytes_max_ = std::max(mapped_panel_bytes_max_, layout.panel_bytes);
    return Append(std::move(matrices));
  }
  Result<std::byte*> taken = TakeBytes(layout.bytes() * experts);
  if (!taken.ok()) return taken.status().WithContext("tensor " + name);
  matrices.data = *taken;
  sources_.push_back(
      {WeightId(static_cast<int32_t>(weights_.size())), view, layout, experts, *taken});
  return Append(std::move(matrices));
}

std::span<const std::byte> CpuWeights::Source::bytes() const {
  return {view.data, static_cast<size_t>(RowBytes(view.type, view.columns()) * view.rows())};
}

std::span<std::byte> CpuWeights::Source::panels() const {
  return {packed, static_cast<size_t>(layout.bytes() * experts)};
}

class CpuWeights::ReadMeter {
 public:
  ReadMeter(std::span<const Source> sources, int passes, const WeightsRead& on_read)
      : sources_(sources), on_read_(on_read) {
    for (const Source& source : sources) {
      total_bytes_ += passes * static_cast<int64_t>(source.bytes().size());
    }
  }

  // The sources before this one were gone through once more.
  void Reached(size_t end) {
    for (; next_ < end; ++next_) {
      // A file that is found damaged half-way makes one pass more than was foreseen.
      done_bytes_ = std::min(done_bytes_ + static_cast<int64_t>(sources_[next_].bytes().size()),
                             total_bytes_);
      if (on_read_) on_read_(sources_[next_].id, done_bytes_, total_bytes_);
    }
    if (end == sources_.size()) BeginPass();
  }
  void BeginPass() { next_ = 0; }

 private:
  const std::span<const Source> sources_;
  const WeightsRead& on_read_;
  size_t next_ = 0;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
};

WeightsReport CpuWeights::Pack(const RepackCache& cache, const WeightsRead& on_read) {
  WeightsReport report;
  std::vector<int64_t> sizes;
  std::vector<std::span<std::byte>> panels;
  for (const Source& source : sources_) {
    panels.push_back(source.panels());
    sizes.push_back(static_cast<int64_t>(panels.back().size()));
    report.bytes += sizes.back();
  }
  if (sources_.empty() || !cache.MayHold(sizes)) {
    ReadMeter meter(sources_, 1, on_read);
    PackSources(meter);
    return report;
  }
  ReadMeter meter(sources_, 2, on_read);
  const ContentHash key = KeyOfSources(meter);
  const Status loaded =
      cache.Load(key, panels, pool_, [&](size_t parts_done) { meter.Reached(parts_done); });
  report.from_cache = loaded.ok();
  if (loaded.ok()) return report;
  if (loaded.code() != StatusCode::kNotFound) {
    report.notes.push_back("repack cache: " + loaded.message() + "; packed from the model");
  }
  PackSources(meter);
  const std::vector<std::span<const std::byte>> packed(panels.begin(), panels.end());
  const Status stored = cache.Store(key, packed, pool_);
  report.stored = stored.ok();
  if (!stored.ok()) report.notes.push_back("repack cache: not written: " + stored.message());
  return report;
}

// Everything that the panels depend on: the code that packs, and of each matrix its bytes, type,
// shape and layout (which differs where all is float32).
ContentHash CpuWeights::KeyOfSources(ReadMeter& meter) {
  struct Part {
    int64_t type, format, out_width, in_width, experts, panel_bytes;
    ContentHash bytes;
  };
  static_assert(sizeof(Part) == 64);
  std::vector<Part> parts = {{kPackingVersion, 0, 0, 0, 0, 0, {}}};
  for (size_t first = 0; first < sources_.size();) {
    std::vector<std::span<const std::byte>> bytes;
    for (int64_t sum = 0; first + bytes.size() < sources_.size() && sum < kBatchBytes;) {
      bytes.push_back(sources_[first + bytes.size()].bytes());
      sum += static_cast<int64_t>(bytes.back().size());
    }
    const std::vector<ContentHash> hashes = HashParts(bytes, pool_);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const Source& source = sources_[first + i];
      const PackedLayout& layout = source.layout;
      parts.push_back({static_cast<int64_t>(source.view.type), static_cast<int64_t>(layout.format),
                       layout.out_width, layout.in_width, source.experts, layout.panel_bytes,
                       hashes[i]});
    }
    first += bytes.size();
    meter.Reached(first);
  }
  return HashBytes(std::as_bytes(std::span(parts)));
}

void CpuWeights::PackSources(ReadMeter& meter) {
  struct Task {
    const Source* source;
    int64_t expert, panel_begin, panel_end;
  };
  meter.BeginPass();
  for (size_t first = 0; first < sources_.size();) {
    std::vector<Task> tasks;
    size_t end = first;
    for (int64_t sum = 0; end < sources_.size() && sum < kBatchBytes; ++end) {
      const Source& source = sources_[end];
      const int64_t panels = source.layout.panel_count();
      // Some hundred kilobytes a task: enough to be worth handing out.
      const int64_t run = std::max<int64_t>(1, kTaskBytes / source.layout.panel_bytes);
      for (int64_t expert = 0; expert < source.experts; ++expert) {
        for (int64_t panel = 0; panel < panels; panel += run) {
          tasks.push_back({&source, expert, panel, std::min(panel + run, panels)});
        }
      }
      sum += static_cast<int64_t>(source.panels().size());
    }
    pool_.ParallelFor(static_cast<int32_t>(tasks.size()), [&](int32_t i) {
      const Task& task = tasks[static_cast<size_t>(i)];
      const Source& source = *task.source;
      const int64_t file_bytes =
          RowBytes(source.view.type, source.view.columns()) * source.view.shape[1];
      PackPanels(source.layout, source.view.type, source.view.data + task.expert * file_bytes,
                 task.panel_begin, task.panel_end,
                 source.packed + task.expert * source.layout.bytes());
    });
    first = end;
    meter.Reached(first);
  }
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

void CpuWeights::TouchEmbeddings() const {
  for (const Weight& weight : weights_) {
    const auto* table = std::get_if<EmbeddingTable>(&weight);
    if (table == nullptr) continue;
    const volatile std::byte* bytes = table->view.data;
    for (int64_t at = 0; at < table->view.size_bytes; at += MemoryRegion::kSystemPageBytes)
      (void)bytes[at];
    if (table->view.size_bytes > 0) (void)bytes[table->view.size_bytes - 1];
  }
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
