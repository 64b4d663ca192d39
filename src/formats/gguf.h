// Reads the header, metadata and tensor table of one GGUF file (v2 or v3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "formats/metadata.h"
#include "formats/model_file.h"

namespace remontoir {

struct GgufContents {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in the order of the file; file_index is 0
  uint64_t end_bytes = 0;           // where the last tensor's data ends, from the file's start
};

// The contents are views into `bytes`, a whole file. Every count, length, type, dimension and
// offset is checked against its size before memory is asked for; errors name the field, key or
// tensor. Memory taken is a small multiple of the table's bytes in the file.
// With kNotNeeded the tensors' data may lie past the end: their views point nowhere, and only sums
// that overflow are refused.
enum class TensorData : uint8_t { kNeeded, kNotNeeded };
Result<GgufContents> ReadGguf(std::span<const std::byte> bytes,
                              TensorData data = TensorData::kNeeded);

}  // namespace remontoir
