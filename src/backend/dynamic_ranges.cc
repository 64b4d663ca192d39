// First fit, by a walk over the granules: there are a few thousand at most.
#include "backend/dynamic_ranges.h"

#include <algorithm>

#include "base/check.h"

namespace remontoir {

DynamicRanges::DynamicRanges(KvPageRange pages, int32_t granule)
    : pages_(pages), granule_(granule), pages_free_(pages.count) {
  REM_CHECK(granule > 0 && Index(pages.begin) >= 0 && pages.count >= 0, "a region of pages");
  REM_CHECK(Index(pages.begin) % granule == 0 && pages.count % granule == 0, "whole granules");
  uses_.resize(static_cast<size_t>(pages.count / granule));
}

std::optional<KvPageRange> DynamicRanges::Take(int32_t pages) {
  REM_CHECK(pages > 0, "a range of pages");
  if (pages > pages_free_) return std::nullopt;
  const auto wanted = (static_cast<size_t>(pages) - 1) / static_cast<size_t>(granule_) + 1;
  size_t run = 0;  // free granules up to here
  for (size_t i = 0; i < uses_.size(); ++i) {
    run = uses_[i] == Use::kFree ? run + 1 : 0;
    if (run < wanted) continue;
    const size_t first = i + 1 - wanted;
    uses_[first] = Use::kFirst;
    for (size_t later = first + 1; later <= i; ++later) uses_[later] = Use::kFollows;
    const auto count = static_cast<int32_t>(wanted) * granule_;
    pages_free_ -= count;
    return KvPageRange{KvPageId(Index(pages_.begin) + static_cast<int32_t>(first) * granule_),
                       count};
  }
  return std::nullopt;
}

void DynamicRanges::GiveBack(KvPageRange range) {
  const size_t first = FirstGranule(range);
  const size_t end = first + static_cast<size_t>(range.count / granule_);
  REM_CHECK(uses_[first] == Use::kFirst, "a range that is out");
  uses_[first] = Use::kFree;
  for (size_t i = first + 1; i < end; ++i) {
    REM_CHECK(uses_[i] == Use::kFollows, "one whole range");
    uses_[i] = Use::kFree;
  }
  REM_CHECK(end == uses_.size() || uses_[end] != Use::kFollows, "one whole range");
  pages_free_ += range.count;
}

int32_t DynamicRanges::longest_free() const {
  int32_t longest = 0;
  int32_t run = 0;
  for (const Use use : uses_) {
    run = use == Use::kFree ? run + granule_ : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

size_t DynamicRanges::FirstGranule(KvPageRange range) const {
  const int64_t offset = int64_t{Index(range.begin)} - Index(pages_.begin);
  REM_CHECK(range.count > 0 && range.count % granule_ == 0 && offset >= 0 &&
                offset % granule_ == 0 && offset <= pages_.count - range.count,
            "a range of this region");
  return static_cast<size_t>(offset / granule_);
}

}  // namespace remontoir
