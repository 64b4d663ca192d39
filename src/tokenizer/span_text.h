// A string that remembers, byte by byte, whether the template or the request's content wrote it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/template_span.h"

namespace remontoir {

enum class Origin : bool { kContent, kTemplate };

class SpanText {
 public:
  SpanText() = default;
  SpanText(std::string_view text, Origin origin) { Append(text, origin); }

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  void Append(std::string_view text, Origin origin);
  void Append(const SpanText& text) { Append(text, 0, text.size()); }
  // Bytes [begin, end) of another text.
  void Append(const SpanText& text, size_t begin, size_t end);

  SpanText Substring(size_t begin, size_t end) const;
  // Of the byte at `at`.
  Origin OriginAt(size_t at) const;

  // The text cut where its origin changes; no stretch is empty.
  std::vector<TemplateSpan> Spans() const;

 private:
  // A stretch ends before `end`; it begins where the one before ends.
  struct Run {
    size_t end;
    Origin origin;
  };

  size_t RunAt(size_t at) const;  // index of the run that holds the byte

  std::string text_;
  std::vector<Run> runs_;  // neighbours differ in origin
};

}  // namespace remontoir
