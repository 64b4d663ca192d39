// One table of methods for each kind of object.
#include "tokenizer/jinja_methods.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/check.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "tokenizer/jinja_format.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_strings.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

struct Call {
  JinjaRuntime& runtime;
  const JinjaValue& object;
  std::string_view name;
  const JinjaArguments& arguments;

  const SpanText& string() const { return object.string(); }

  // The string at that place, or an error; nullptr if none was given (or None).
  Result<const SpanText*> Text(size_t index, std::string_view keyword) const {
    const JinjaValue* value = arguments.Find(index, keyword);
    if (value == nullptr || value->IsNone()) return static_cast<const SpanText*>(nullptr);
    if (value->IsString()) return &value->string();
    REM_RETURN_IF_ERROR(JinjaDefined(*value));
    return InvalidArgument(std::string(name) + "() wants a str, not " +
                           std::string(value->TypeName()));
  }
  Result<const SpanText*> NeededText(size_t index, std::string_view keyword) const {
    REM_ASSIGN_OR_RETURN(const SpanText* text, Text(index, keyword));
    if (text == nullptr) return InvalidArgument(std::string(name) + "() wants an argument");
    return text;
  }
  Result<int64_t> Whole(size_t index, std::string_view keyword, int64_t fallback) const {
    const JinjaValue* value = arguments.Find(index, keyword);
    if (value == nullptr || value->IsNone()) return fallback;
    const std::optional<int64_t> whole = value->AsInteger();
    if (!whole.has_value()) return InvalidArgument(std::string(name) + "() wants an int");
    return *whole;
  }
};

using Method = Result<JinjaValue> (*)(const Call&);

struct Named {
  std::string_view name;
  Method method;
};

Result<JinjaValue> ListOf(JinjaRuntime& runtime, Result<std::vector<SpanText>> texts) {
  if (!texts.ok()) return texts.status();
  REM_RETURN_IF_ERROR(runtime.Spend(texts->size() * sizeof(SpanText)));
  std::vector<JinjaValue> items;
  for (SpanText& text : *texts) items.emplace_back(std::move(text));
  return JinjaValue::List(std::move(items));
}

template <bool kLeft, bool kRight>
Result<JinjaValue> Strip(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* characters, call.Text(0, "chars"));
  return JinjaValue(StripText(call.string(), characters, kLeft, kRight));
}

template <CaseMap kMap>
Result<JinjaValue> Case(const Call& call) {
  return JinjaValue(MapCase(call.string(), kMap));
}

template <bool kFromEnd>
Result<JinjaValue> Split(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* separator, call.Text(0, "sep"));
  REM_ASSIGN_OR_RETURN(const int64_t count, call.Whole(1, "maxsplit", -1));
  if (separator == nullptr && kFromEnd && count >= 0) {
    return InvalidArgument("rsplit() at spaces with maxsplit is not supported");
  }
  if (separator == nullptr) return ListOf(call.runtime, SplitAtSpaces(call.string(), count));
  if (separator->empty()) return InvalidArgument("empty separator");
  return ListOf(call.runtime, kFromEnd ? SplitTextFromEnd(call.string(), separator->text(), count)
                                       : SplitText(call.string(), separator->text(), count));
}

template <bool kFromEnd>
Result<JinjaValue> Partition(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* separator, call.NeededText(0, "sep"));
  if (separator->empty()) return InvalidArgument("empty separator");
  const SpanText& text = call.string();
  const size_t found =
      kFromEnd ? text.text().rfind(separator->text()) : text.text().find(separator->text());
  if (found == std::string::npos) {
    const JinjaValue empty = JinjaValue::Template("");
    return kFromEnd ? JinjaValue::Tuple({empty, empty, call.object})
                    : JinjaValue::Tuple({call.object, empty, empty});
  }
  return JinjaValue::Tuple({text.Substring(0, found), *separator,
                            text.Substring(found + separator->size(), text.size())});
}

// startswith and endswith, with a string or a tuple of strings.
template <bool kAtEnd>
Result<JinjaValue> Borders(const Call& call) {
  const JinjaValue* wanted = call.arguments.Find(0, "prefix");
  if (wanted == nullptr) return InvalidArgument(std::string(call.name) + "() wants an argument");
  const std::vector<JinjaValue> single = {*wanted};
  for (const JinjaValue& candidate : wanted->IsTuple() ? wanted->items() : single) {
    if (!candidate.IsString()) {
      return InvalidArgument(std::string(call.name) + "() wants a str or a tuple of str, not " +
                             std::string(candidate.TypeName()));
    }
    const std::string& text = call.string().text();
    if (kAtEnd ? text.ends_with(candidate.text()) : text.starts_with(candidate.text()))
      return JinjaValue(true);
  }
  return JinjaValue(false);
}

// find and rfind: the character's number, or -1.
template <bool kFromEnd>
Result<JinjaValue> FindText(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* wanted, call.NeededText(0, "sub"));
  const std::string& text = call.string().text();
  const size_t found = kFromEnd ? text.rfind(wanted->text()) : text.find(wanted->text());
  if (found == std::string::npos) return JinjaValue(int64_t{-1});
  return JinjaValue(static_cast<int64_t>(CountUtf8(std::string_view(text).substr(0, found))));
}

Result<JinjaValue> IndexOfText(const Call& call) {
  REM_ASSIGN_OR_RETURN(JinjaValue found, FindText<false>(call));
  if (found.integer() < 0) return InvalidArgument("substring not found");
  return found;
}

Result<JinjaValue> CountText(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* wanted, call.NeededText(0, "sub"));
  if (wanted->empty()) return JinjaValue(static_cast<int64_t>(CountUtf8(call.string().text()) + 1));
  int64_t count = 0;
  const std::string& text = call.string().text();
  for (size_t at = text.find(wanted->text()); at != std::string::npos;
       at = text.find(wanted->text(), at + wanted->size())) {
    ++count;
  }
  return JinjaValue(count);
}

Result<JinjaValue> Replace(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* old, call.NeededText(0, "old"));
  REM_ASSIGN_OR_RETURN(const SpanText* replacement, call.NeededText(1, "new"));
  REM_ASSIGN_OR_RETURN(const int64_t count, call.Whole(2, "count", -1));
  REM_RETURN_IF_ERROR(call.runtime.Spend(
      (call.string().size() / std::max<size_t>(old->size(), 1) + 1) * (replacement->size() + 1)));
  return JinjaValue(ReplaceText(call.string(), *old, *replacement, count));
}

Result<JinjaValue> JoinItems(const Call& call) {
  const JinjaValue* list = call.arguments.Find(0, "iterable");
  if (list == nullptr) return InvalidArgument("join() wants an argument");
  REM_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaItems(call.runtime, *list));
  SpanText joined;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].IsString()) {
      return InvalidArgument("sequence item " + std::to_string(i) + ": expected str instance, " +
                             std::string(items[i].TypeName()) + " found");
    }
    REM_RETURN_IF_ERROR(call.runtime.Spend(items[i].string().size() + call.string().size()));
    if (i > 0) joined.Append(call.string());
    joined.Append(items[i].string());
  }
  return JinjaValue(std::move(joined));
}

Result<JinjaValue> Lines(const Call& call) {
  const JinjaValue* keep = call.arguments.Find(0, "keepends");
  return ListOf(call.runtime, SplitLines(call.string(), keep != nullptr && keep->Truth()));
}

template <bool kSuffix>
Result<JinjaValue> RemoveBorder(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText* border, call.NeededText(0, "prefix"));
  const SpanText& text = call.string();
  if (kSuffix && text.text().ends_with(border->text())) {
    return JinjaValue(text.Substring(0, text.size() - border->size()));
  }
  if (!kSuffix && text.text().starts_with(border->text())) {
    return JinjaValue(text.Substring(border->size(), text.size()));
  }
  return call.object;
}

// ljust, rjust and center; kLeft and kRight say on which sides blanks are added.
template <bool kLeft, bool kRight>
Result<JinjaValue> Pad(const Call& call) {
  REM_ASSIGN_OR_RETURN(const int64_t width, call.Whole(0, "width", 0));
  const auto length = static_cast<int64_t>(CountUtf8(call.string().text()));
  const int64_t missing = std::max<int64_t>(0, width - length);
  REM_RETURN_IF_ERROR(call.runtime.Spend(static_cast<size_t>(missing)));
  // Python puts the odd blank of center() to the left when the width is odd.
  const int64_t left = !kLeft ? 0 : !kRight ? missing : missing / 2 + (missing & width & 1);
  SpanText padded(std::string(static_cast<size_t>(left), ' '), Origin::kTemplate);
  padded.Append(call.string());
  padded.Append(std::string(static_cast<size_t>(missing - left), ' '), Origin::kTemplate);
  return JinjaValue(std::move(padded));
}

Result<JinjaValue> ZeroFill(const Call& call) {
  REM_ASSIGN_OR_RETURN(const int64_t width, call.Whole(0, "width", 0));
  const SpanText& text = call.string();
  const int64_t missing =
      std::max<int64_t>(0, width - static_cast<int64_t>(CountUtf8(text.text())));
  REM_RETURN_IF_ERROR(call.runtime.Spend(static_cast<size_t>(missing)));
  const size_t sign = text.text().starts_with('-') || text.text().starts_with('+') ? 1 : 0;
  SpanText filled = text.Substring(0, sign);
  filled.Append(std::string(static_cast<size_t>(missing), '0'), Origin::kTemplate);
  filled.Append(text, sign, text.size());
  return JinjaValue(std::move(filled));
}

// isdigit and its like: true if there are characters and all are of the kind.
template <bool (*kIs)(char32_t)>
Result<JinjaValue> AllAre(const Call& call) {
  std::string_view rest = call.string().text();
  const bool any = !rest.empty();
  while (!rest.empty()) {
    const Utf8Character character = DecodeUtf8(rest);
    if (!kIs(character.code_point)) return JinjaValue(false);
    rest.remove_prefix(character.length);
  }
  return JinjaValue(any);
}

bool IsLetterOrNumber(char32_t c) { return IsLetter(c) || IsNumeric(c); }

// isupper and islower: true if there are cased characters and none is of the other case.
template <bool (*kIs)(char32_t), bool (*kIsOther)(char32_t)>
Result<JinjaValue> CaseIs(const Call& call) {
  bool any = false;
  for (std::string_view rest = call.string().text(); !rest.empty();) {
    const Utf8Character character = DecodeUtf8(rest);
    if (kIsOther(character.code_point)) return JinjaValue(false);
    any = any || kIs(character.code_point);
    rest.remove_prefix(character.length);
  }
  return JinjaValue(any);
}

Result<JinjaValue> Format(const Call& call) {
  return JinjaBraceFormat(call.runtime, call.string(), call.arguments);
}

constexpr Named kStringMethods[] = {
    {"strip", Strip<true, true>},
    {"lstrip", Strip<true, false>},
    {"rstrip", Strip<false, true>},
    {"split", Split<false>},
    {"rsplit", Split<true>},
    {"splitlines", Lines},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"startswith", Borders<false>},
    {"endswith", Borders<true>},
    {"find", FindText<false>},
    {"rfind", FindText<true>},
    {"index", IndexOfText},
    {"count", CountText},
    {"replace", Replace},
    {"join", JoinItems},
    {"format", Format},
    {"upper", Case<CaseMap::kUpper>},
    {"lower", Case<CaseMap::kLower>},
    {"title", Case<CaseMap::kTitle>},
    {"capitalize", Case<CaseMap::kCapitalized>},
    {"swapcase", Case<CaseMap::kSwapped>},
    {"casefold", Case<CaseMap::kLower>},
    {"removeprefix", RemoveBorder<false>},
    {"removesuffix", RemoveBorder<true>},
    {"ljust", Pad<false, true>},
    {"rjust", Pad<true, false>},
    {"center", Pad<true, true>},
    {"zfill", ZeroFill},
    {"isdigit", AllAre<IsDecimalDigit>},
    {"isdecimal", AllAre<IsDecimalDigit>},
    {"isnumeric", AllAre<IsNumeric>},
    {"isalpha", AllAre<IsLetter>},
    {"isalnum", AllAre<IsLetterOrNumber>},
    {"isspace", AllAre<IsSpace>},
    {"isupper", CaseIs<IsUpper, IsLower>},
    {"islower", CaseIs<IsLower, IsUpper>},
};

Result<JinjaValue> MapGet(const Call& call) {
  const JinjaValue* key = call.arguments.Find(0, "key");
  if (key == nullptr) return InvalidArgument("get() wants a key");
  REM_RETURN_IF_ERROR(call.runtime.Spend(call.object.map().size()));
  if (const JinjaValue* found = call.object.map().Find(*key)) return *found;
  const JinjaValue* fallback = call.arguments.Find(1, "default");
  return fallback == nullptr ? JinjaValue() : *fallback;
}

Result<JinjaValue> MapItems(const Call& call) { return JinjaPairs(call.runtime, call.object); }

Result<JinjaValue> MapKeys(const Call& call) {
  REM_ASSIGN_OR_RETURN(std::vector<JinjaValue> keys, JinjaItems(call.runtime, call.object));
  return JinjaValue::List(std::move(keys));
}

Result<JinjaValue> MapValues(const Call& call) {
  REM_RETURN_IF_ERROR(call.runtime.Spend(call.object.map().size() * sizeof(JinjaValue)));
  std::vector<JinjaValue> values;
  for (const JinjaMap::Entry& entry : call.object.map().entries()) values.push_back(entry.value);
  return JinjaValue::List(std::move(values));
}

Result<JinjaValue> Itself(const Call& call) { return call.object; }

constexpr Named kMapMethods[] = {{"get", MapGet},
                                 {"items", MapItems},
                                 {"keys", MapKeys},
                                 {"values", MapValues},
                                 {"copy", Itself}};

Result<JinjaValue> ListIndex(const Call& call) {
  const JinjaValue* wanted = call.arguments.Find(0, "value");
  if (wanted == nullptr) return InvalidArgument("index() wants an argument");
  for (size_t i = 0; i < call.object.items().size(); ++i) {
    REM_ASSIGN_OR_RETURN(const bool equal,
                         JinjaEqual(call.runtime, call.object.items()[i], *wanted));
    if (equal) return JinjaValue(static_cast<int64_t>(i));
  }
  return InvalidArgument("value is not in list");
}

Result<JinjaValue> ListCount(const Call& call) {
  const JinjaValue* wanted = call.arguments.Find(0, "value");
  if (wanted == nullptr) return InvalidArgument("count() wants an argument");
  int64_t count = 0;
  for (const JinjaValue& item : call.object.items()) {
    REM_ASSIGN_OR_RETURN(const bool equal, JinjaEqual(call.runtime, item, *wanted));
    count += equal ? 1 : 0;
  }
  return JinjaValue(count);
}

constexpr Named kListMethods[] = {{"index", ListIndex}, {"count", ListCount}, {"copy", Itself}};

Method FindMethod(const JinjaValue& object, std::string_view name) {
  std::span<const Named> methods;
  if (object.IsString()) methods = kStringMethods;
  if (object.IsMap()) methods = kMapMethods;
  if (object.IsList()) methods = kListMethods;
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [name](const Named& named) { return named.name == name; });
  return found == methods.end() ? nullptr : found->method;
}

}  // namespace

bool HasJinjaMethod(const JinjaValue& object, std::string_view name) {
  return FindMethod(object, name) != nullptr;
}

Result<JinjaValue> CallJinjaMethod(JinjaRuntime& runtime, const JinjaValue& object,
                                   std::string_view name, const JinjaArguments& arguments) {
  const Method method = FindMethod(object, name);
  REM_CHECK(method != nullptr, "no such method");
  REM_RETURN_IF_ERROR(runtime.Spend(object.IsString() ? object.string().size() : 0));
  return method(Call{runtime, object, name, arguments});
}

Result<JinjaValue> JinjaPairs(JinjaRuntime& runtime, const JinjaValue& map) {
  REM_RETURN_IF_ERROR(runtime.Spend(map.map().size() * 3 * sizeof(JinjaValue)));
  std::vector<JinjaValue> pairs;
  for (const JinjaMap::Entry& entry : map.map().entries()) {
    pairs.push_back(JinjaValue::Tuple({entry.key, entry.value}));
  }
  return JinjaValue::List(std::move(pairs));
}

}  // namespace remontoir
