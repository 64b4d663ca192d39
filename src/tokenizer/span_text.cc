// Runs of equal origin beside the bytes.
#include "tokenizer/span_text.h"

#include <algorithm>

namespace remontoir {

void SpanText::Append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  text_ += text;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), origin});
  }
}

void SpanText::Append(const SpanText& text, size_t begin, size_t end) {
  if (begin >= end) return;
  const std::string_view bytes = text.text_;
  for (size_t run = text.RunAt(begin); begin < end; ++run) {
    const size_t run_end = std::min(end, text.runs_[run].end);
    Append(bytes.substr(begin, run_end - begin), text.runs_[run].origin);
    begin = run_end;
  }
}

SpanText SpanText::Substring(size_t begin, size_t end) const {
  SpanText part;
  part.Append(*this, begin, end);
  return part;
}

Origin SpanText::OriginAt(size_t at) const { return runs_[RunAt(at)].origin; }

std::vector<TemplateSpan> SpanText::Spans() const {
  std::vector<TemplateSpan> spans;
  size_t begin = 0;
  for (const Run& run : runs_) {
    spans.push_back({text_.substr(begin, run.end - begin), run.origin == Origin::kTemplate});
    begin = run.end;
  }
  return spans;
}

size_t SpanText::RunAt(size_t at) const {
  const auto run =
      std::upper_bound(runs_.begin(), runs_.end(), at,
                       [](size_t wanted, const Run& have) { return wanted < have.end; });
  return static_cast<size_t>(run - runs_.begin());
}

}  // namespace remontoir
