// What `|` applies: trim, join, tojson, ...
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"

namespace remontoir {

// What a filter is called with.
struct JinjaFilterCall {
  JinjaRuntime& runtime;
  std::string_view name;
  const JinjaValue& subject;
  const JinjaArguments& arguments;

  const JinjaValue* Find(size_t index, std::string_view keyword) const {
    return arguments.Find(index, keyword);
  }
  Status Error(std::string_view what) const;
  Result<int64_t> Whole(size_t index, std::string_view keyword, int64_t fallback) const;
  bool Flag(size_t index, std::string_view keyword, bool fallback) const;
};

using JinjaFilter = Result<JinjaValue> (*)(const JinjaFilterCall&);

struct JinjaNamedFilter {
  std::string_view name;
  JinjaFilter filter;
};

bool HasJinjaFilter(std::string_view name);

// An error for an unknown filter.
Result<JinjaValue> ApplyJinjaFilter(JinjaRuntime& runtime, std::string_view name,
                                    const JinjaValue& subject, const JinjaArguments& arguments);

// The filters by where they are written: on text and numbers, and on sequences. nullptr: none.
JinjaFilter FindJinjaTextFilter(std::string_view name);
JinjaFilter FindJinjaSequenceFilter(std::string_view name);

}  // namespace remontoir
