// Stop strings across the borders of pieces.
#include "server/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace remontoir {

std::string StopMatcher::Push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, held_.find(stop));
  if (found != std::string::npos) {
    stopped_ = true;
    held_.resize(found);
    return std::exchange(held_, {});
  }
  const size_t certain = held_.size() - HeldSuffix();
  std::string passed = held_.substr(0, certain);
  held_.erase(0, certain);
  return passed;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

// Length of the longest end of held_ with which a stop string begins.
size_t StopMatcher::HeldSuffix() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) {
        longest = length;
        break;
      }
    }
  }
  return longest;
}

}  // namespace remontoir
