// Finds the first stop string in text that comes in pieces, and holds back what may become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remontoir {

class StopMatcher {
 public:
  // None of the strings is empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that is certain not to belong to a stop string. Once one is found: what stood before
  // it, and nothing more from then on.
  std::string Push(std::string_view text);

  // At the end of all text: what was held back.
  std::string Finish();

  bool stopped() const { return stopped_; }

 private:
  size_t HeldSuffix() const;

  const std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace remontoir
