// Finding a filter, and what all of them use.
#include "tokenizer/jinja_filters.h"

#include <string>

namespace remontoir {
namespace {

JinjaFilter FindFilter(std::string_view name) {
  const JinjaFilter filter = FindJinjaTextFilter(name);
  return filter != nullptr ? filter : FindJinjaSequenceFilter(name);
}

}  // namespace

Status JinjaFilterCall::Error(std::string_view what) const {
  return InvalidArgument("the filter '" + std::string(name) + "' " + std::string(what));
}

Result<int64_t> JinjaFilterCall::Whole(size_t index, std::string_view keyword,
                                       int64_t fallback) const {
  const JinjaValue* value = Find(index, keyword);
  if (value == nullptr || value->IsNone()) return fallback;
  const std::optional<int64_t> whole = value->AsInteger();
  if (!whole.has_value()) return Error("wants an int as '" + std::string(keyword) + "'");
  return *whole;
}

bool JinjaFilterCall::Flag(size_t index, std::string_view keyword, bool fallback) const {
  const JinjaValue* value = Find(index, keyword);
  return value == nullptr ? fallback : value->Truth();
}

bool HasJinjaFilter(std::string_view name) { return FindFilter(name) != nullptr; }

Result<JinjaValue> ApplyJinjaFilter(JinjaRuntime& runtime, std::string_view name,
                                    const JinjaValue& subject, const JinjaArguments& arguments) {
  const JinjaFilter filter = FindFilter(name);
  if (filter == nullptr) {
    return InvalidArgument("no filter named '" + std::string(name.substr(0, 40)) + "'");
  }
  REM_RETURN_IF_ERROR(runtime.Spend(subject.IsString() ? subject.string().size() : 0));
  return filter(JinjaFilterCall{runtime, name, subject, arguments});
}

}  // namespace remontoir
