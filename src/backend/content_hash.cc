// XXH3 with 128 bits stays in this file; a part's hash is that of its chunks' hashes.
#include "backend/content_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "base/worker_pool.h"

namespace remontoir {
namespace {

// Small enough that two workers share one matrix of a small model and that a chunk which was just
// read is still in the cache when it is hashed.
constexpr int64_t kChunkBytes = int64_t{256} << 10;

}  // namespace

std::string ContentHash::Hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

ContentHash HashBytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::vector<PartChunk> CutIntoChunks(std::span<const int64_t> part_bytes) {
  std::vector<PartChunk> chunks;
  for (size_t part = 0; part < part_bytes.size(); ++part) {
    for (int64_t begin = 0; begin < part_bytes[part]; begin += kChunkBytes) {
      chunks.push_back({part, begin, std::min(kChunkBytes, part_bytes[part] - begin)});
    }
  }
  return chunks;
}

std::vector<ContentHash> JoinHashes(std::span<const PartChunk> chunks,
                                    std::span<const ContentHash> chunk_hashes, size_t part_count) {
  std::vector<ContentHash> hashes(part_count, HashBytes({}));
  for (size_t first = 0; first < chunks.size();) {
    size_t end = first;
    while (end < chunks.size() && chunks[end].part == chunks[first].part) ++end;
    hashes[chunks[first].part] = HashBytes(std::as_bytes(chunk_hashes.subspan(first, end - first)));
    first = end;
  }
  return hashes;
}

std::vector<ContentHash> HashParts(std::span<const std::span<const std::byte>> parts,
                                   WorkerPool& pool) {
  std::vector<int64_t> sizes;
  for (const auto& part : parts) sizes.push_back(static_cast<int64_t>(part.size()));
  const std::vector<PartChunk> chunks = CutIntoChunks(sizes);
  std::vector<ContentHash> chunk_hashes(chunks.size());
  pool.ParallelFor(static_cast<int32_t>(chunks.size()), [&](int32_t i) {
    const auto index = static_cast<size_t>(i);
    const PartChunk& chunk = chunks[index];
    chunk_hashes[index] = HashBytes(parts[chunk.part].subspan(static_cast<size_t>(chunk.begin),
                                                              static_cast<size_t>(chunk.bytes)));
  });
  return JoinHashes(chunks, chunk_hashes, parts.size());
}

}  // namespace remontoir
