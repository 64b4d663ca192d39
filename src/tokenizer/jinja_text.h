// Values as text: what {{ }} writes, Python's repr, and JSON. Text keeps its origin; what is added
// around it (quotes, brackets, escapes) is the template's.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"
#include "tokenizer/span_text.h"

namespace remontoir {

// As Python's str(): a string is itself, undefined is empty.
Status AppendJinjaText(JinjaRuntime& runtime, const JinjaValue& value, SpanText& out);
Result<SpanText> JinjaText(JinjaRuntime& runtime, const JinjaValue& value);

// As Python's repr(): strings in quotes.
Status AppendJinjaRepr(JinjaRuntime& runtime, const JinjaValue& value, SpanText& out);

struct JinjaJsonStyle {
  std::optional<std::string> indent;  // of a level; nullopt: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sorted_keys = false;
};

// As Python's json.dumps().
Status AppendJinjaJson(JinjaRuntime& runtime, const JinjaValue& value, const JinjaJsonStyle& style,
                       SpanText& out);

// As Python's repr() of a float: "1.0", "1e+16", "inf".
std::string JinjaFloatText(double value);

}  // namespace remontoir
