// Draws the progress bar with a carriage return, at most ten times a second.
#include "apps/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace remontoir {
namespace {

constexpr int kCells = 32;
constexpr int kCellsBesideDetail = 12;  // so that both fit in 80 columns
constexpr int64_t kDrawIntervalUs = 100'000;
constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

ProgressBar::ProgressBar(std::string label, const Clock& clock, Write write)
    : label_(std::move(label)), clock_(clock), write_(std::move(write)) {}

ProgressBar::~ProgressBar() {
  if (write_ && percent_drawn_ >= 0) write_(kClearLine);
}

void ProgressBar::Update(int64_t done, int64_t total, std::string_view detail) {
  if (!write_ || total <= 0) return;
  const double fraction =
      std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int percent = static_cast<int>(fraction * 100);
  const TimePoint now = clock_.Now();
  const bool drawn = percent_drawn_ >= 0;
  const bool same = percent == percent_drawn_ && detail == detail_drawn_;
  if (drawn && (same || ElapsedUs(time_drawn_, now) < kDrawIntervalUs)) return;
  percent_drawn_ = percent;
  detail_drawn_ = detail;
  time_drawn_ = now;
  const int cells = detail.empty() ? kCells : kCellsBesideDetail;
  const int full = static_cast<int>(fraction * cells);
  char number[16];
  std::snprintf(number, sizeof number, "] %3d %%", percent);
  write_(std::string(kClearLine) + label_ + " [" + std::string(full, '#') +
         std::string(cells - full, ' ') + number + (detail.empty() ? "" : "  ") +
         std::string(detail));
}

ProgressBar::Write TerminalWriter() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
}

}  // namespace remontoir
