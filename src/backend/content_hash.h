// Names bytes by what they hold: 128-bit hashes, computed on all workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace remontoir {

class WorkerPool;

// Finds accidents and tells contents apart; it doesn't withstand someone who makes collisions.
struct ContentHash {
  uint64_t low = 0;
  uint64_t high = 0;

  std::string Hex() const;  // 32 digits
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};

ContentHash HashBytes(std::span<const std::byte> bytes);

// A run of bytes of one of several parts: what one worker reads or hashes at a time.
struct PartChunk {
  size_t part = 0;
  int64_t begin = 0;  // within the part
  int64_t bytes = 0;
};

// All chunks of parts of these sizes, in order. How a part is cut is part of its hash.
std::vector<PartChunk> CutIntoChunks(std::span<const int64_t> part_bytes);

// The hash of each part, from those of its chunks.
std::vector<ContentHash> JoinHashes(std::span<const PartChunk> chunks,
                                    std::span<const ContentHash> chunk_hashes, size_t part_count);

// The hash of each part; the same for any number of workers.
std::vector<ContentHash> HashParts(std::span<const std::span<const std::byte>> parts,
                                   WorkerPool& pool);

}  // namespace remontoir
