// A template's source as tokens, whitespace control applied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

struct JinjaToken {
  enum class Kind {
    kText,           // outside of tags: value is the text to write
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,  // value is unescaped
    kInteger,
    kFloat,
    kOperator,  // value is its spelling
    kEnd,       // of the source, always last
  };

  Kind kind;
  std::string value;
  int line;
};

// As transformers sets Jinja up: trim_blocks, lstrip_blocks, and one newline at the end of the
// source dropped. Errors name the line.
Result<std::vector<JinjaToken>> LexJinja(std::string_view source);

}  // namespace remontoir
