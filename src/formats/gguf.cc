// Header and tensor table of a GGUF file, and the checks that tie them to its size.
#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>

#include "formats/byte_cursor.h"
#include "formats/gguf_values.h"
#include "formats/printable.h"

namespace remontoir {
namespace {

constexpr uint32_t kMagic = 0x4655'4747;  // "GGUF"
constexpr uint64_t kMetadataKeysMax = 1 << 16;
constexpr uint64_t kTensorsMax = 1 << 18;
constexpr size_t kTensorNameBytesMax = 1024;
constexpr uint64_t kAlignmentDefault = 32;
constexpr uint64_t kAlignmentMin = 8;
constexpr uint64_t kAlignmentMax = 1 << 20;
// The least an entry of each table takes: a key of one byte with an 8-bit number; a name of one
// byte with one dimension.
constexpr uint64_t kMetadataEntryBytesMin = 8 + 1 + 4 + 1;
constexpr uint64_t kTensorEntryBytesMin = 8 + 1 + 4 + 8 + 4 + 8;

Status CheckVersion(uint32_t version) {
  if (version == 2 || version == 3) return Status::Ok();
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped == 2 || swapped == 3) {
    return Unsupported("version " + std::to_string(swapped) +
                       " in big-endian byte order; this build reads little-endian files");
  }
  return Unsupported("version " + std::to_string(version) + "; this build reads GGUF 2 and 3");
}

Status CheckCount(uint64_t count, uint64_t bound, uint64_t entry_bytes_min, size_t bytes_left,
                  std::string_view what) {
  if (count > bytes_left / entry_bytes_min) {
    return InvalidArgument(std::string(what) + " " + std::to_string(count) +
                           " does not fit in a file with " + std::to_string(bytes_left) +
                           " bytes left");
  }
  if (count > bound) {
    return ResourceExhausted(std::string(what) + " " + std::to_string(count) +
                             " is above the bound of " + std::to_string(bound));
  }
  return Status::Ok();
}

Result<Metadata> ReadMetadata(ByteCursor& cursor, uint64_t count) {
  std::vector<Metadata::Entry> entries;
  entries.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    auto entry = ReadMetadataEntry(cursor);
    if (!entry.ok()) {
      return entry.status().WithContext("metadata entry " + std::to_string(i + 1) + " of " +
                                        std::to_string(count));
    }
    entries.push_back(*std::move(entry));
  }
  return Metadata::FromEntries(std::move(entries));
}

Result<uint64_t> Alignment(const Metadata& metadata) {
  constexpr std::string_view kKey = "general.alignment";
  if (metadata.Find(kKey) == nullptr) return kAlignmentDefault;
  REM_ASSIGN_OR_RETURN(const uint64_t alignment, metadata.GetUint(kKey));
  if (!std::has_single_bit(alignment) || alignment < kAlignmentMin || alignment > kAlignmentMax) {
    return InvalidArgument(std::string(kKey) + ": " + std::to_string(alignment) +
                           " is not a power of two from " + std::to_string(kAlignmentMin) + " to " +
                           std::to_string(kAlignmentMax));
  }
  return alignment;
}

// Bytes of a tensor whose shape and type stand in the view. Fails on a row that is no whole number
// of blocks and on any product past 2^63 - 1.
Result<int64_t> TensorBytes(const TensorView& view) {
  const DTypeInfo& info = Info(view.type);
  if (view.columns() % info.block_elements != 0) {
    return InvalidArgument("a row of " + std::to_string(view.columns()) +
                           " values is not a multiple of " + std::string(info.name) +
                           "'s block of " + std::to_string(info.block_elements));
  }
  int64_t bytes = view.columns() / info.block_elements;
  bool overflow = __builtin_mul_overflow(bytes, int64_t{info.block_bytes}, &bytes);
  int64_t elements = view.columns();
  for (int i = 1; i < view.rank; ++i) {
    const int64_t dimension = view.shape[static_cast<size_t>(i)];
    overflow |= __builtin_mul_overflow(bytes, dimension, &bytes);
    overflow |= __builtin_mul_overflow(elements, dimension, &elements);
  }
  if (overflow) return InvalidArgument("the product of its dimensions overflows 64 bits");
  return bytes;
}

Status ReadShape(ByteCursor& cursor, TensorView& view) {
  REM_ASSIGN_OR_RETURN(const auto rank, cursor.Read<uint32_t>("n_dims"));
  if (rank < 1 || rank > kTensorRankMax) {
    return InvalidArgument("n_dims is " + std::to_string(rank) + ", must be 1 to " +
                           std::to_string(kTensorRankMax));
  }
  view.rank = static_cast<int>(rank);
  for (size_t i = 0; i < rank; ++i) {
    REM_ASSIGN_OR_RETURN(const auto dimension, cursor.Read<int64_t>("a dimension"));
    if (dimension <= 0) {
      return InvalidArgument("dimension " + std::to_string(i) + " is " + std::to_string(dimension) +
                             ", must be above 0");
    }
    view.shape[i] = dimension;
  }
  return Status::Ok();
}

Result<DType> ReadTensorType(ByteCursor& cursor) {
  REM_ASSIGN_OR_RETURN(const auto number, cursor.Read<uint32_t>("the tensor type"));
  const std::optional<DType> type = DTypeFromGgml(number);
  if (!type.has_value()) {
    return Unsupported("tensor type " + std::to_string(number) + " (" +
                       std::string(GgmlTypeName(number)) + ") is not one this build reads");
  }
  return *type;
}

// One entry of the table; `view.data` and `file_offset` are still relative to the data section.
Result<TensorInfo> ReadTensorInfo(ByteCursor& cursor) {
  TensorInfo tensor;
  REM_ASSIGN_OR_RETURN(tensor.name, cursor.ReadString("tensor name"));
  if (Status status = CheckName(tensor.name, kTensorNameBytesMax); !status.ok()) {
    return status.WithContext("tensor name");
  }
  const auto read_rest = [&]() -> Status {
    REM_RETURN_IF_ERROR(ReadShape(cursor, tensor.view));
    REM_ASSIGN_OR_RETURN(tensor.view.type, ReadTensorType(cursor));
    REM_ASSIGN_OR_RETURN(tensor.file_offset, cursor.Read<uint64_t>("the offset"));
    REM_ASSIGN_OR_RETURN(tensor.view.size_bytes, TensorBytes(tensor.view));
    return Status::Ok();
  };
  if (Status status = read_rest(); !status.ok()) {
    return status.WithContext("tensor " + Quoted(tensor.name));
  }
  return tensor;
}

// Ties a tensor to its bytes: the data section starts at data_start.
Status Place(std::span<const std::byte> file, uint64_t data_start, uint64_t alignment,
             TensorData data, TensorInfo& tensor) {
  const uint64_t offset = tensor.file_offset;
  const auto size = static_cast<uint64_t>(tensor.view.size_bytes);
  if (offset % alignment != 0) {
    return InvalidArgument("offset " + std::to_string(offset) +
                           " is not a multiple of the alignment, " + std::to_string(alignment));
  }
  if (data == TensorData::kNotNeeded) {
    constexpr auto kEndMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (offset > kEndMax - data_start || size > kEndMax - data_start - offset) {
      return InvalidArgument("offset " + std::to_string(offset) + " and size " +
                             std::to_string(size) + " end past what 63 bits can count");
    }
    tensor.file_offset = data_start + offset;
    return Status::Ok();
  }
  const uint64_t data_bytes = file.size() > data_start ? file.size() - data_start : 0;
  if (offset > data_bytes || size > data_bytes - offset) {
    return InvalidArgument("offset " + std::to_string(offset) + " and size " +
                           std::to_string(size) + " reach past the end of the file (" +
                           std::to_string(data_bytes) + " bytes of tensor data)");
  }
  tensor.file_offset = data_start + offset;
  tensor.view.data = file.data() + tensor.file_offset;
  return Status::Ok();
}

Status CheckNoOverlap(const std::vector<TensorInfo>& tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return tensors[i].file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = tensors[order[i - 1]];
    const TensorInfo& after = tensors[order[i]];
    if (before.file_offset + static_cast<uint64_t>(before.view.size_bytes) > after.file_offset) {
      return InvalidArgument("tensor " + Quoted(after.name) + ": its data overlaps that of " +
                             Quoted(before.name));
    }
  }
  return Status::Ok();
}

Result<std::vector<TensorInfo>> ReadTensors(ByteCursor& cursor, uint64_t count, uint64_t alignment,
                                            std::span<const std::byte> file, TensorData data) {
  std::vector<TensorInfo> tensors;
  tensors.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    auto tensor = ReadTensorInfo(cursor);
    if (!tensor.ok()) {
      return tensor.status().WithContext("tensor table entry " + std::to_string(i + 1) + " of " +
                                         std::to_string(count));
    }
    tensors.push_back(*tensor);
  }
  const uint64_t data_start = (cursor.offset() + alignment - 1) / alignment * alignment;
  for (TensorInfo& tensor : tensors) {
    if (Status status = Place(file, data_start, alignment, data, tensor); !status.ok()) {
      return status.WithContext("tensor " + Quoted(tensor.name));
    }
  }
  REM_RETURN_IF_ERROR(CheckNoOverlap(tensors));
  return tensors;
}

}  // namespace

Result<GgufContents> ReadGguf(std::span<const std::byte> bytes, TensorData data) {
  if (bytes.empty()) return InvalidArgument("the file is empty: no GGUF magic");
  ByteCursor cursor(bytes);
  REM_ASSIGN_OR_RETURN(const auto magic, cursor.Read<uint32_t>("the magic"));
  if (magic != kMagic) return InvalidArgument("the magic is not GGUF: no GGUF file");
  GgufContents contents;
  REM_ASSIGN_OR_RETURN(contents.version, cursor.Read<uint32_t>("the version"));
  REM_RETURN_IF_ERROR(CheckVersion(contents.version));
  REM_ASSIGN_OR_RETURN(const auto tensor_count, cursor.Read<uint64_t>("tensor_count"));
  REM_ASSIGN_OR_RETURN(const auto kv_count, cursor.Read<uint64_t>("kv_count"));
  REM_RETURN_IF_ERROR(CheckCount(tensor_count, kTensorsMax, kTensorEntryBytesMin,
                                 cursor.remaining(), "tensor_count"));
  REM_RETURN_IF_ERROR(CheckCount(kv_count, kMetadataKeysMax, kMetadataEntryBytesMin,
                                 cursor.remaining(), "kv_count"));
  REM_ASSIGN_OR_RETURN(contents.metadata, ReadMetadata(cursor, kv_count));
  REM_ASSIGN_OR_RETURN(const uint64_t alignment, Alignment(contents.metadata));
  REM_ASSIGN_OR_RETURN(contents.tensors, ReadTensors(cursor, tensor_count, alignment, bytes, data));
  for (const TensorInfo& tensor : contents.tensors) {
    const auto size = static_cast<uint64_t>(tensor.view.size_bytes);
    contents.end_bytes = std::max(contents.end_bytes, tensor.file_offset + size);
  }
  return contents;
}

}  // namespace remontoir
