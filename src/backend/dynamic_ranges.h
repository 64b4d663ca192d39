// Which pages of the dynamic region are out: first fit over a row of page numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/kv_layout.h"

namespace remontoir {

// Ranges are whole granules of the region (Backend::dynamic_granule), so that no two of them share
// a page of the system. Allocates nothing after construction.
class DynamicRanges {
 public:
  // `pages` begins and ends at a multiple of the granule.
  DynamicRanges(KvPageRange pages, int32_t granule);

  // The lowest free range of `pages`, rounded up to whole granules; nothing when none is that long.
  // pages > 0.
  std::optional<KvPageRange> Take(int32_t pages);

  // `range` is one that Take gave, whole: anything else is a bug.
  void GiveBack(KvPageRange range);

  int32_t pages_free() const { return pages_free_; }
  // The longest range that Take would give now.
  int32_t longest_free() const;
  int32_t pages_total() const { return pages_.count; }

 private:
  enum class Use : uint8_t { kFree, kFirst, kFollows };  // the first granule of a range, or a later

  size_t FirstGranule(KvPageRange range) const;

  const KvPageRange pages_;
  const int32_t granule_;
  std::vector<Use> uses_;  // by granule
  int32_t pages_free_ = 0;
};

}  // namespace remontoir
