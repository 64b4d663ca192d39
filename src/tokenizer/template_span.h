// A stretch of a rendered chat: who wrote it decides whether special tokens in it are parsed.
#pragma once

#include <string>

namespace remontoir {

struct TemplateSpan {
  std::string text;
  bool from_template = false;  // false: content, from a message or another of the request's fields

  bool operator==(const TemplateSpan&) const = default;
};

}  // namespace remontoir
