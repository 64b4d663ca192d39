// Packed weights kept on disk under a hash of what they were packed from, so that the next start
// reads them instead of packing again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "backend/content_hash.h"
#include "base/status.h"

namespace remontoir {

class WorkerPool;

struct RepackCacheOptions {
  std::string folder;                     // empty: no cache
  int64_t bytes_max = int64_t{16} << 30;  // of all its files together
};

// A folder of files, KEY.panels: one holds all matrices of a model. One file is one rename (a model
// is there whole or not at all), one sync, and one thing to count and to remove; the key covers the
// sizes of its parts, so that a reader knows them beforehand and trusts nothing the file says.
class RepackCache {
 public:
  // Called when the parts before this index are done.
  using PartsDone = std::function<void(size_t parts_done)>;

  explicit RepackCache(RepackCacheOptions options) : options_(std::move(options)) {}

  std::string PathOf(const ContentHash& key) const;

  // Whether parts of so many bytes in all may be kept. If not, asking and storing is vain.
  bool MayHold(std::span<const int64_t> part_bytes) const;

  // Reads the parts that were stored under `key`, on all workers, and checks every byte. After an
  // error the parts hold anything. kNotFound: there is no such file; anything else says what is
  // wrong with it.
  Status Load(const ContentHash& key, std::span<const std::span<std::byte>> parts, WorkerPool& pool,
              const PartsDone& parts_done) const;

  // Stores the parts, after the files that were not used for longest made room. On an error nothing
  // is left; a file that was there under this key is there still.
  Status Store(const ContentHash& key, std::span<const std::span<const std::byte>> parts,
               WorkerPool& pool) const;

 private:
  Status WriteFile(int descriptor, const std::string& path, const ContentHash& key,
                   std::span<const std::span<const std::byte>> parts, WorkerPool& pool) const;
  void MakeRoom(int64_t bytes) const;

  const RepackCacheOptions options_;
};

}  // namespace remontoir
