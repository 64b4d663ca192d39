// The tests as one table.
#include "tokenizer/jinja_tests.h"

#include <algorithm>
#include <string>

#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_strings.h"

namespace remontoir {
namespace {

struct Call {
  JinjaRuntime& runtime;
  std::string_view name;
  const JinjaValue& subject;
  const JinjaArguments& arguments;

  Result<const JinjaValue*> Argument() const {
    if (!arguments.positional.empty()) return &arguments.positional[0];
    return InvalidArgument("the test '" + std::string(name) + "' wants an argument");
  }
};

using Test = Result<bool> (*)(const Call&);

struct Named {
  std::string_view names;  // separated by blanks
  Test test;
};

// Comparisons, by the operator that they stand for.
template <char kFirst, char kSecond>
Result<bool> Compare(const Call& call) {
  constexpr char kOperator[] = {kFirst, kSecond, '\0'};
  REM_ASSIGN_OR_RETURN(const JinjaValue* other, call.Argument());
  return JinjaCompare(call.runtime, kOperator, call.subject, *other);
}

Result<bool> In(const Call& call) {
  REM_ASSIGN_OR_RETURN(const JinjaValue* container, call.Argument());
  return JinjaCompare(call.runtime, "in", call.subject, *container);
}

Result<int64_t> Remainder(const Call& call, const JinjaValue& divisor) {
  REM_ASSIGN_OR_RETURN(const JinjaValue rest,
                       JinjaBinary(call.runtime, "%", call.subject, divisor));
  const std::optional<int64_t> whole = rest.AsInteger();
  if (!whole.has_value())
    return InvalidArgument("the test '" + std::string(call.name) + "' wants an int");
  return *whole;
}

Result<bool> Odd(const Call& call) {
  REM_ASSIGN_OR_RETURN(const int64_t rest, Remainder(call, JinjaValue(int64_t{2})));
  return rest == 1;
}

Result<bool> Even(const Call& call) {
  REM_ASSIGN_OR_RETURN(const int64_t rest, Remainder(call, JinjaValue(int64_t{2})));
  return rest == 0;
}

Result<bool> DivisibleBy(const Call& call) {
  REM_ASSIGN_OR_RETURN(const JinjaValue* divisor, call.Argument());
  REM_ASSIGN_OR_RETURN(const int64_t rest, Remainder(call, *divisor));
  return rest == 0;
}

Result<bool> SameAs(const Call& call) {
  REM_ASSIGN_OR_RETURN(const JinjaValue* other, call.Argument());
  if (call.subject.TypeName() != other->TypeName()) return false;
  return JinjaEqual(call.runtime, call.subject, *other);
}

// upper and lower: a string that the mapping doesn't change.
template <CaseMap kMap>
Result<bool> IsMapped(const Call& call) {
  if (!call.subject.IsString()) return false;
  return MapCase(call.subject.string(), kMap).text() == call.subject.text();
}

bool IsCallable(const JinjaValue& value) {
  return value.macro() != nullptr || value.function() != nullptr || value.loop() != nullptr;
}

constexpr Named kTests[] = {
    {"defined", [](const Call& c) -> Result<bool> { return !c.subject.IsUndefined(); }},
    {"undefined", [](const Call& c) -> Result<bool> { return c.subject.IsUndefined(); }},
    {"none", [](const Call& c) -> Result<bool> { return c.subject.IsNone(); }},
    {"boolean", [](const Call& c) -> Result<bool> { return c.subject.IsBool(); }},
    {"true",
     [](const Call& c) -> Result<bool> { return c.subject.IsBool() && c.subject.boolean(); }},
    {"false",
     [](const Call& c) -> Result<bool> { return c.subject.IsBool() && !c.subject.boolean(); }},
    {"integer", [](const Call& c) -> Result<bool> { return c.subject.IsInteger(); }},
    {"float", [](const Call& c) -> Result<bool> { return c.subject.IsFloat(); }},
    {"number", [](const Call& c) -> Result<bool> { return c.subject.IsNumber(); }},
    {"string", [](const Call& c) -> Result<bool> { return c.subject.IsString(); }},
    {"mapping", [](const Call& c) -> Result<bool> { return c.subject.IsMap(); }},
    {"sequence",
     [](const Call& c) -> Result<bool> {
       return c.subject.IsString() || c.subject.IsList() || c.subject.IsMap();
     }},
    {"iterable",
     [](const Call& c) -> Result<bool> {
       return c.subject.IsString() || c.subject.IsList() || c.subject.IsMap() ||
              c.subject.IsUndefined() || c.subject.loop() != nullptr;
     }},
    {"callable", [](const Call& c) -> Result<bool> { return IsCallable(c.subject); }},
    {"escaped", [](const Call&) -> Result<bool> { return false; }},
    {"filter",
     [](const Call& c) -> Result<bool> {
       return c.subject.IsString() && HasJinjaFilter(c.subject.text());
     }},
    {"odd", Odd},
    {"even", Even},
    {"divisibleby", DivisibleBy},
    {"sameas", SameAs},
    {"in", In},
    {"upper", IsMapped<CaseMap::kUpper>},
    {"lower", IsMapped<CaseMap::kLower>},
    {"eq equalto ==", Compare<'=', '='>},
    {"ne !=", Compare<'!', '='>},
    {"lt lessthan <", Compare<'<', '\0'>},
    {"le <=", Compare<'<', '='>},
    {"gt greaterthan >", Compare<'>', '\0'>},
    {"ge >=", Compare<'>', '='>},
};

bool Lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view candidate = names.substr(0, names.find(' '));
    if (candidate == name) return true;
    names.remove_prefix(std::min(names.size(), candidate.size() + 1));
  }
  return false;
}

}  // namespace

Result<bool> ApplyJinjaTest(JinjaRuntime& runtime, std::string_view name, const JinjaValue& subject,
                            const JinjaArguments& arguments) {
  REM_RETURN_IF_ERROR(runtime.Spend());
  const auto found = std::find_if(std::begin(kTests), std::end(kTests),
                                  [name](const Named& named) { return Lists(named.names, name); });
  if (found == std::end(kTests)) {
    return InvalidArgument("no test named '" + std::string(name.substr(0, 40)) + "'");
  }
  return found->test(Call{runtime, name, subject, arguments});
}

}  // namespace remontoir
