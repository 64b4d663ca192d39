// Arithmetic, comparison and access.
#include "tokenizer/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "text/utf8.h"
#include "tokenizer/jinja_format.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

Status Overflow() { return InvalidArgument("a whole number is too large"); }

Status Unsuited(std::string_view op, const JinjaValue& a, const JinjaValue& b) {
  return InvalidArgument("unsupported operand type(s) for " + std::string(op) + ": '" +
                         std::string(a.TypeName()) + "' and '" + std::string(b.TypeName()) + "'");
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<JinjaValue> Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return JinjaValue(result);
}

Result<JinjaValue> WholeArithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &result) ? Result<JinjaValue>(Overflow())
                                                 : JinjaValue(result);
  if (op == "-")
    return __builtin_sub_overflow(a, b, &result) ? Result<JinjaValue>(Overflow())
                                                 : JinjaValue(result);
  if (op == "*")
    return __builtin_mul_overflow(a, b, &result) ? Result<JinjaValue>(Overflow())
                                                 : JinjaValue(result);
  if (op == "**") {
    if (b < 0) return JinjaValue(std::pow(static_cast<double>(a), static_cast<double>(b)));
    return Power(a, b);
  }
  if (b == 0) return InvalidArgument("division by zero");
  if (op == "/") return JinjaValue(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // the one quotient that can overflow
    if (op == "%") return JinjaValue(int64_t{0});
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? Result<JinjaValue>(Overflow())
                                                          : JinjaValue(result);
  }
  if (op == "//") return JinjaValue(FloorDivide(a, b));
  return JinjaValue(a - b * FloorDivide(a, b));  // %
}

Result<JinjaValue> FloatArithmetic(std::string_view op, double a, double b) {
  if (op == "+") return JinjaValue(a + b);
  if (op == "-") return JinjaValue(a - b);
  if (op == "*") return JinjaValue(a * b);
  if (op == "**") return JinjaValue(std::pow(a, b));
  if (b == 0) return InvalidArgument("division by zero");
  if (op == "/") return JinjaValue(a / b);
  if (op == "//") return JinjaValue(std::floor(a / b));
  return JinjaValue(a - b * std::floor(a / b));
}

Result<JinjaValue> Join(JinjaRuntime& runtime, const JinjaValue& a, const JinjaValue& b) {
  REM_RETURN_IF_ERROR(runtime.Spend(a.string().size() + b.string().size()));
  SpanText text = a.string();
  text.Append(b.string());
  return JinjaValue(std::move(text));
}

Result<JinjaValue> JoinLists(JinjaRuntime& runtime, const JinjaValue& a, const JinjaValue& b) {
  std::vector<JinjaValue> items = a.items();
  REM_RETURN_IF_ERROR(runtime.Spend((items.size() + b.items().size()) * sizeof(JinjaValue)));
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.IsTuple() ? JinjaValue::Tuple(std::move(items)) : JinjaValue::List(std::move(items));
}

// A string or list `count` times.
Result<JinjaValue> Repeat(JinjaRuntime& runtime, const JinjaValue& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  const size_t unit =
      value.IsString() ? value.string().size() : value.items().size() * sizeof(JinjaValue);
  size_t bytes = 0;
  if (__builtin_mul_overflow(unit, static_cast<size_t>(count), &bytes)) bytes = SIZE_MAX;
  REM_RETURN_IF_ERROR(runtime.Spend(bytes));
  if (value.IsString()) {
    SpanText text;
    for (int64_t i = 0; bytes > 0 && i < count; ++i) text.Append(value.string());
    return JinjaValue(std::move(text));
  }
  std::vector<JinjaValue> items;
  for (int64_t i = 0; bytes > 0 && i < count; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.IsTuple() ? JinjaValue::Tuple(std::move(items)) : JinjaValue::List(std::move(items));
}

Result<bool> Contains(JinjaRuntime& runtime, const JinjaValue& container, const JinjaValue& item) {
  if (container.IsString()) {
    if (!item.IsString()) {
      return InvalidArgument("'in <string>' requires string as left operand, not " +
                             std::string(item.TypeName()));
    }
    REM_RETURN_IF_ERROR(runtime.Spend(container.string().size()));
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.IsMap()) {
    REM_RETURN_IF_ERROR(runtime.Spend(container.map().size()));
    return container.map().Find(item) != nullptr;
  }
  if (container.IsUndefined()) return false;
  if (!container.IsList()) {
    return InvalidArgument("argument of type '" + std::string(container.TypeName()) +
                           "' is not iterable");
  }
  for (const JinjaValue& candidate : container.items()) {
    REM_ASSIGN_OR_RETURN(const bool equal, JinjaEqual(runtime, candidate, item));
    if (equal) return true;
  }
  return false;
}

// A place counted from the end if negative; -1 if outside.
int64_t Place(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}

std::string NoAttribute(const JinjaValue& value, std::string_view name) {
  return "'" + std::string(value.TypeName()) + " object' has no attribute '" + std::string(name) +
         "'";
}

// Begin of every character, and the end of the last.
std::vector<size_t> CharacterBegins(std::string_view text) {
  std::vector<size_t> begins;
  size_t at = 0;
  for (; at < text.size(); at += DecodeUtf8(text.substr(at)).length) begins.push_back(at);
  begins.push_back(at);
  return begins;
}

struct SliceBounds {
  int64_t begin;
  int64_t end;
  int64_t step;
};

Result<SliceBounds> BoundsOf(int64_t length, const JinjaValue& begin, const JinjaValue& end,
                             const JinjaValue& step) {
  for (const JinjaValue* part : {&begin, &end, &step}) {
    if (!part->IsNone() && !part->AsInteger().has_value()) {
      return InvalidArgument("slice indices must be integers or None");
    }
  }
  SliceBounds bounds{0, 0, step.AsInteger().value_or(1)};
  if (bounds.step == 0) return InvalidArgument("slice step cannot be zero");
  // A step beyond the length takes one item, whatever its size.
  bounds.step = std::clamp(bounds.step, -length - 1, length + 1);
  const bool forward = bounds.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? length : length - 1;
  const auto bound = [&](const JinjaValue& part, int64_t fallback) {
    if (part.IsNone()) return fallback;
    const int64_t index = *part.AsInteger();
    return std::clamp(index < 0 ? index + length : index, low, high);
  };
  bounds.begin = bound(begin, forward ? 0 : length - 1);
  bounds.end = bound(end, forward ? length : -1);
  return bounds;
}

Result<int> CompareNumbers(const JinjaValue& a, const JinjaValue& b) {
  const std::optional<int64_t> a_whole = a.AsInteger();
  const std::optional<int64_t> b_whole = b.AsInteger();
  if (a_whole.has_value() && b_whole.has_value())
    return (*a_whole > *b_whole) - (*a_whole < *b_whole);
  const double x = *a.AsDouble();
  const double y = *b.AsDouble();
  return (x > y) - (x < y);
}

}  // namespace

Status JinjaDefined(const JinjaValue& value) {
  return value.IsUndefined() ? InvalidArgument(value.undefined().what) : Status::Ok();
}

Result<JinjaValue> JinjaBinary(JinjaRuntime& runtime, std::string_view op, const JinjaValue& a,
                               const JinjaValue& b) {
  if (op == "~") {
    REM_ASSIGN_OR_RETURN(SpanText text, JinjaText(runtime, a));
    REM_RETURN_IF_ERROR(AppendJinjaText(runtime, b, text));
    return JinjaValue(std::move(text));
  }
  REM_RETURN_IF_ERROR(JinjaDefined(a));
  REM_RETURN_IF_ERROR(JinjaDefined(b));
  const std::optional<int64_t> a_whole = a.AsInteger();
  const std::optional<int64_t> b_whole = b.AsInteger();
  if (a_whole.has_value() && b_whole.has_value()) return WholeArithmetic(op, *a_whole, *b_whole);
  if (a.IsNumber() && b.IsNumber()) return FloatArithmetic(op, *a.AsDouble(), *b.AsDouble());
  if (op == "+" && a.IsString() && b.IsString()) return Join(runtime, a, b);
  if (op == "+" && a.IsList() && b.IsList() && a.IsTuple() == b.IsTuple()) {
    return JoinLists(runtime, a, b);
  }
  if (op == "*" && (a.IsString() || a.IsList()) && b_whole.has_value()) {
    return Repeat(runtime, a, *b_whole);
  }
  if (op == "*" && (b.IsString() || b.IsList()) && a_whole.has_value()) {
    return Repeat(runtime, b, *a_whole);
  }
  if (op == "%" && a.IsString()) {
    return JinjaPercentFormat(runtime, a.string(), b.IsTuple() ? b.items() : std::vector{b});
  }
  if (op == "+" && a.IsString()) {
    return InvalidArgument("can only concatenate str (not \"" + std::string(b.TypeName()) +
                           "\") to str");
  }
  return Unsuited(op, a, b);
}

Result<JinjaValue> JinjaNegate(const JinjaValue& value) {
  REM_RETURN_IF_ERROR(JinjaDefined(value));
  if (const std::optional<int64_t> whole = value.AsInteger())
    return WholeArithmetic("-", 0, *whole);
  if (value.IsFloat()) return JinjaValue(-*value.AsDouble());
  return InvalidArgument("bad operand type for unary -: '" + std::string(value.TypeName()) + "'");
}

Result<bool> JinjaEqual(JinjaRuntime& runtime, const JinjaValue& a, const JinjaValue& b) {
  const JinjaRuntime::Nesting nesting(runtime);
  REM_RETURN_IF_ERROR(nesting.Check());
  REM_RETURN_IF_ERROR(runtime.Spend(a.IsString() ? a.string().size() : 0));
  if (a.IsList() && b.IsList()) {
    if (a.IsTuple() != b.IsTuple() || a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i) {
      REM_ASSIGN_OR_RETURN(const bool equal, JinjaEqual(runtime, a.items()[i], b.items()[i]));
      if (!equal) return false;
    }
    return true;
  }
  if (a.IsMap() && b.IsMap()) {
    if (a.map().size() != b.map().size()) return false;
    for (const JinjaMap::Entry& entry : a.map().entries()) {
      REM_RETURN_IF_ERROR(runtime.Spend(b.map().size()));
      const JinjaValue* other = b.map().Find(entry.key);
      if (other == nullptr) return false;
      REM_ASSIGN_OR_RETURN(const bool equal, JinjaEqual(runtime, entry.value, *other));
      if (!equal) return false;
    }
    return true;
  }
  return SimplyEqual(a, b);
}

Result<int> JinjaOrder(JinjaRuntime& runtime, const JinjaValue& a, const JinjaValue& b) {
  const JinjaRuntime::Nesting nesting(runtime);
  REM_RETURN_IF_ERROR(nesting.Check());
  REM_RETURN_IF_ERROR(runtime.Spend(a.IsString() ? a.string().size() : 0));
  REM_RETURN_IF_ERROR(JinjaDefined(a));
  REM_RETURN_IF_ERROR(JinjaDefined(b));
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(a, b);
  if (a.IsString() && b.IsString()) {
    const int order = a.text().compare(b.text());  // UTF-8 sorts as its code points do
    return (order > 0) - (order < 0);
  }
  if (a.IsList() && b.IsList()) {
    const size_t shared = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < shared; ++i) {
      REM_ASSIGN_OR_RETURN(const int order, JinjaOrder(runtime, a.items()[i], b.items()[i]));
      if (order != 0) return order;
    }
    return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size();
  }
  return InvalidArgument("'<' not supported between instances of '" + std::string(a.TypeName()) +
                         "' and '" + std::string(b.TypeName()) + "'");
}

Result<bool> JinjaCompare(JinjaRuntime& runtime, std::string_view op, const JinjaValue& a,
                          const JinjaValue& b) {
  if (op == "in") return Contains(runtime, b, a);
  if (op == "not in") {
    REM_ASSIGN_OR_RETURN(const bool contains, Contains(runtime, b, a));
    return !contains;
  }
  if (op == "==" || op == "!=") {
    REM_ASSIGN_OR_RETURN(const bool equal, JinjaEqual(runtime, a, b));
    return equal == (op == "==");
  }
  REM_ASSIGN_OR_RETURN(const int order, JinjaOrder(runtime, a, b));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

Result<JinjaValue> JinjaAttribute(const JinjaValue& value, std::string_view name) {
  REM_RETURN_IF_ERROR(JinjaDefined(value));
  const JinjaValue* found = nullptr;
  if (value.IsMap()) found = value.map().Find(name);
  if (const JinjaNamespace* space = value.name_space()) found = space->attributes.Find(name);
  if (found != nullptr) return *found;
  return JinjaValue(JinjaUndefined{NoAttribute(value, name)});
}

Result<JinjaValue> JinjaSubscript(JinjaRuntime& runtime, const JinjaValue& value,
                                  const JinjaValue& key) {
  const std::optional<int64_t> index = key.AsInteger();
  if (value.IsList() && index.has_value()) {
    const int64_t place = Place(*index, static_cast<int64_t>(value.items().size()));
    if (place >= 0) return value.items()[place];
    return JinjaValue(JinjaUndefined{"list object has no element " + std::to_string(*index)});
  }
  if (value.IsString() && index.has_value()) {
    REM_RETURN_IF_ERROR(runtime.Spend(value.string().size()));
    const std::vector<size_t> begins = CharacterBegins(value.text());
    const int64_t place = Place(*index, static_cast<int64_t>(begins.size()) - 1);
    if (place >= 0) return JinjaValue(value.string().Substring(begins[place], begins[place + 1]));
    return JinjaValue(JinjaUndefined{"str object has no element " + std::to_string(*index)});
  }
  if (key.IsString()) return JinjaAttribute(value, key.text());
  REM_RETURN_IF_ERROR(JinjaDefined(value));
  if (value.IsMap()) {
    if (const JinjaValue* found = value.map().Find(key)) return *found;
  }
  return JinjaValue(JinjaUndefined{std::string(value.TypeName()) + " object has no such element"});
}

Result<JinjaValue> JinjaSlice(JinjaRuntime& runtime, const JinjaValue& value,
                              const JinjaValue& begin, const JinjaValue& end,
                              const JinjaValue& step) {
  REM_RETURN_IF_ERROR(JinjaDefined(value));
  if (!value.IsString() && !value.IsList()) {
    return InvalidArgument("'" + std::string(value.TypeName()) + "' can't be sliced");
  }
  std::vector<size_t> begins;
  if (value.IsString()) begins = CharacterBegins(value.text());
  const auto length =
      static_cast<int64_t>(value.IsString() ? begins.size() - 1 : value.items().size());
  REM_RETURN_IF_ERROR(runtime.Spend(value.IsString() ? value.string().size()
                                                     : value.items().size() * sizeof(JinjaValue)));
  REM_ASSIGN_OR_RETURN(const SliceBounds bounds, BoundsOf(length, begin, end, step));
  const auto inside = [&](int64_t i) { return bounds.step > 0 ? i < bounds.end : i > bounds.end; };
  if (value.IsString()) {
    if (bounds.step == 1) {
      return JinjaValue(value.string().Substring(begins[bounds.begin],
                                                 begins[std::max(bounds.begin, bounds.end)]));
    }
    SpanText text;
    for (int64_t i = bounds.begin; inside(i); i += bounds.step) {
      text.Append(value.string(), begins[i], begins[i + 1]);
    }
    return JinjaValue(std::move(text));
  }
  std::vector<JinjaValue> items;
  for (int64_t i = bounds.begin; inside(i); i += bounds.step) items.push_back(value.items()[i]);
  return value.IsTuple() ? JinjaValue::Tuple(std::move(items)) : JinjaValue::List(std::move(items));
}

Result<std::vector<JinjaValue>> JinjaItems(JinjaRuntime& runtime, const JinjaValue& value) {
  std::vector<JinjaValue> items;
  if (value.IsUndefined()) return items;
  if (value.IsList()) {
    REM_RETURN_IF_ERROR(runtime.Spend(value.items().size() * sizeof(JinjaValue)));
    return value.items();
  }
  if (value.IsMap()) {
    REM_RETURN_IF_ERROR(runtime.Spend(value.map().size() * sizeof(JinjaValue)));
    for (const JinjaMap::Entry& entry : value.map().entries()) items.push_back(entry.key);
    return items;
  }
  if (value.IsString()) {
    REM_RETURN_IF_ERROR(runtime.Spend(value.string().size() * sizeof(SpanText)));
    const std::vector<size_t> begins = CharacterBegins(value.text());
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      items.emplace_back(value.string().Substring(begins[i], begins[i + 1]));
    }
    return items;
  }
  return InvalidArgument("'" + std::string(value.TypeName()) + "' object is not iterable");
}

Result<int64_t> JinjaLength(const JinjaValue& value) {
  if (value.IsUndefined()) return 0;
  if (value.IsString()) return static_cast<int64_t>(CountUtf8(value.text()));
  if (value.IsList()) return static_cast<int64_t>(value.items().size());
  if (value.IsMap()) return static_cast<int64_t>(value.map().size());
  return InvalidArgument("object of type '" + std::string(value.TypeName()) + "' has no len()");
}

}  // namespace remontoir
