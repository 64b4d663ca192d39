// A line on the terminal that shows how far loading is; silent when stderr is no terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace remontoir {

class ProgressBar {
 public:
  using Write = std::function<void(std::string_view)>;

  // Draws "label [####    ]  40 %" through `write`; an empty `write` draws nothing.
  ProgressBar(std::string label, const Clock& clock, Write write);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws when a tenth of a second has passed since it last did and the percent, or the `detail`
  // behind it, is another.
  void Update(int64_t done, int64_t total, std::string_view detail = {});

 private:
  const std::string label_;
  const Clock& clock_;
  const Write write_;
  int percent_drawn_ = -1;
  std::string detail_drawn_;
  TimePoint time_drawn_;
};

// Writes to stderr when that is a terminal, else empty.
ProgressBar::Write TerminalWriter();

}  // namespace remontoir
