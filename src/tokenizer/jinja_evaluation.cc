// Expressions and calls of the interpreter.
#include <algorithm>
#include <ctime>

#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_interpreter.h"
#include "tokenizer/jinja_methods.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_tests.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

using Kind = JinjaExpression::Kind;

constexpr int64_t kRangeMax = 100'000;

JinjaValue WholeValue(size_t value) { return JinjaValue(static_cast<int64_t>(value)); }

// loop.index and its like.
JinjaValue LoopAttribute(const JinjaLoop& loop, std::string_view name) {
  if (loop.items == nullptr) return JinjaValue(JinjaUndefined{"the loop is over"});
  const size_t count = loop.items->size();
  if (name == "index") return WholeValue(loop.index + 1);
  if (name == "index0") return WholeValue(loop.index);
  if (name == "revindex") return WholeValue(count - loop.index);
  if (name == "revindex0") return WholeValue(count - loop.index - 1);
  if (name == "first") return JinjaValue(loop.index == 0);
  if (name == "last") return JinjaValue(loop.index + 1 == count);
  if (name == "length") return WholeValue(count);
  if (name == "depth") return WholeValue(static_cast<size_t>(loop.depth));
  if (name == "depth0") return WholeValue(static_cast<size_t>(loop.depth - 1));
  if (name == "previtem" && loop.index > 0) return (*loop.items)[loop.index - 1];
  if (name == "nextitem" && loop.index + 1 < count) return (*loop.items)[loop.index + 1];
  return JinjaValue(JinjaUndefined{"'loop' has no attribute '" + std::string(name) + "' here"});
}

Result<JinjaValue> Range(JinjaRuntime& runtime, const JinjaArguments& arguments) {
  std::vector<int64_t> numbers;
  for (const JinjaValue& value : arguments.positional) {
    const std::optional<int64_t> whole = value.AsInteger();
    if (!whole.has_value()) return InvalidArgument("range() wants ints");
    numbers.push_back(*whole);
  }
  if (numbers.empty() || numbers.size() > 3) return InvalidArgument("range() wants 1 to 3 ints");
  const int64_t begin = numbers.size() == 1 ? 0 : numbers[0];
  const int64_t end = numbers.size() == 1 ? numbers[0] : numbers[1];
  const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
  if (step == 0) return InvalidArgument("range() arg 3 must not be zero");
  std::vector<JinjaValue> items;
  int64_t at = begin;
  while (step > 0 ? at < end : at > end) {
    if (static_cast<int64_t>(items.size()) == kRangeMax) {
      return InvalidArgument("range() has more than " + std::to_string(kRangeMax) + " items");
    }
    REM_RETURN_IF_ERROR(runtime.Spend(sizeof(JinjaValue)));
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return JinjaValue::List(std::move(items));
}

// dict(...) and namespace(...): a map's entries and keywords.
Result<JinjaMap> MapOf(const JinjaArguments& arguments) {
  JinjaMap map;
  for (const JinjaValue& value : arguments.positional) {
    if (!value.IsMap()) return InvalidArgument("dict() and namespace() want a mapping or keywords");
    for (const JinjaMap::Entry& entry : value.map().entries()) map.Set(entry.key, entry.value);
  }
  for (const auto& [name, value] : arguments.keywords) map.Set(JinjaValue::Template(name), value);
  return map;
}

Result<JinjaValue> FormatTime(const std::tm& clock, const JinjaArguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.positional[0].IsString()) {
    return InvalidArgument("strftime_now() wants a format");
  }
  const std::string& format = arguments.positional[0].text();
  if (format.empty()) return JinjaValue::Template("");
  char text[512];
  const size_t length = std::strftime(text, sizeof text, format.c_str(), &clock);
  if (length == 0) return InvalidArgument("strftime_now(): the format gives nothing, or too much");
  return JinjaValue::Template({text, length});
}

}  // namespace

Result<JinjaValue> JinjaInterpreter::Evaluate(const JinjaExpression& expression,
                                              const JinjaScope& scope) {
  const JinjaRuntime::Nesting nesting(runtime_);
  REM_RETURN_IF_ERROR(nesting.Check());
  REM_RETURN_IF_ERROR(runtime_.Spend());
  switch (expression.kind) {
    case Kind::kConstant: return expression.constant;
    case Kind::kName: return Variable(expression, scope);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict: return EvaluateLiteral(expression, scope);
    case Kind::kAttribute:
    case Kind::kSubscript:
    case Kind::kSlice: return EvaluateAccess(expression, scope);
    case Kind::kCall: return EvaluateCall(expression, scope, nullptr);
    case Kind::kFilter: return EvaluateFilter(expression, nullptr, scope);
    case Kind::kTest: return EvaluateTest(expression, scope);
    case Kind::kCompare: return EvaluateCompare(expression, scope);
    default: return EvaluateOperator(expression, scope);
  }
}

Result<JinjaValue> JinjaInterpreter::Variable(const JinjaExpression& expression,
                                              const JinjaScope& scope) const {
  if (const JinjaValue* value = scope.Find(expression.name)) return *value;
  return JinjaValue(JinjaUndefined{"'" + expression.name + "' is undefined"});
}

Result<JinjaValue> JinjaInterpreter::EvaluateOperator(const JinjaExpression& expression,
                                                      const JinjaScope& scope) {
  REM_ASSIGN_OR_RETURN(JinjaValue first, Evaluate(*expression.operands[0], scope));
  switch (expression.kind) {
    case Kind::kNot: return JinjaValue(!first.Truth());
    case Kind::kNegate: return JinjaNegate(first);
    case Kind::kPlus:
      REM_RETURN_IF_ERROR(JinjaDefined(first));
      if (first.IsNumber()) return first;
      return InvalidArgument("bad operand type for unary +");
    case Kind::kAnd:
      if (!first.Truth()) return first;
      return Evaluate(*expression.operands[1], scope);
    case Kind::kOr:
      if (first.Truth()) return first;
      return Evaluate(*expression.operands[1], scope);
    case Kind::kConditional: {
      const JinjaExpressionPtr& chosen = expression.operands[first.Truth() ? 1 : 2];
      if (chosen != nullptr) return Evaluate(*chosen, scope);
      return JinjaValue(JinjaUndefined{"the inline if-expression has no else"});
    }
    default: break;
  }
  REM_ASSIGN_OR_RETURN(const JinjaValue second, Evaluate(*expression.operands[1], scope));
  return JinjaBinary(runtime_, expression.name, first, second);
}

// a < b < c: every pair must hold, and nothing behind the first that doesn't is evaluated.
Result<JinjaValue> JinjaInterpreter::EvaluateCompare(const JinjaExpression& expression,
                                                     const JinjaScope& scope) {
  REM_ASSIGN_OR_RETURN(JinjaValue left, Evaluate(*expression.operands[0], scope));
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    REM_ASSIGN_OR_RETURN(JinjaValue right, Evaluate(*expression.operands[i + 1], scope));
    REM_ASSIGN_OR_RETURN(const bool holds,
                         JinjaCompare(runtime_, expression.operators[i], left, right));
    if (!holds) return JinjaValue(false);
    left = std::move(right);
  }
  return JinjaValue(true);
}

Result<JinjaValue> JinjaInterpreter::EvaluateLiteral(const JinjaExpression& expression,
                                                     const JinjaScope& scope) {
  std::vector<JinjaValue> items;
  for (const JinjaExpressionPtr& operand : expression.operands) {
    REM_ASSIGN_OR_RETURN(JinjaValue item, Evaluate(*operand, scope));
    items.push_back(std::move(item));
  }
  if (expression.kind == Kind::kList) return JinjaValue::List(std::move(items));
  if (expression.kind == Kind::kTuple) return JinjaValue::Tuple(std::move(items));
  JinjaMap map;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].IsList() || items[i].IsMap()) {
      return InvalidArgument("unhashable type: '" + std::string(items[i].TypeName()) + "'");
    }
    map.Set(std::move(items[i]), std::move(items[i + 1]));
  }
  return JinjaValue(std::move(map));
}

Result<JinjaValue> JinjaInterpreter::EvaluateAccess(const JinjaExpression& expression,
                                                    const JinjaScope& scope) {
  REM_ASSIGN_OR_RETURN(const JinjaValue subject, Evaluate(*expression.operands[0], scope));
  if (expression.kind == Kind::kAttribute) {
    if (const JinjaLoop* loop = subject.loop()) return LoopAttribute(*loop, expression.name);
    return JinjaAttribute(subject, expression.name);
  }
  JinjaValue parts[3];
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    if (expression.operands[i] == nullptr) continue;
    REM_ASSIGN_OR_RETURN(parts[i - 1], Evaluate(*expression.operands[i], scope));
  }
  if (expression.kind == Kind::kSlice) {
    return JinjaSlice(runtime_, subject, parts[0], parts[1], parts[2]);
  }
  if (subject.loop() != nullptr && parts[0].IsString()) {
    return LoopAttribute(*subject.loop(), parts[0].text());
  }
  return JinjaSubscript(runtime_, subject, parts[0]);
}

// `innermost` is what the first filter of a block's chain works on.
Result<JinjaValue> JinjaInterpreter::EvaluateFilter(const JinjaExpression& expression,
                                                    const JinjaValue* innermost,
                                                    const JinjaScope& scope) {
  JinjaValue subject;
  if (expression.operands.empty()) {
    subject = *innermost;
  } else if (innermost != nullptr) {
    REM_ASSIGN_OR_RETURN(subject, EvaluateFilter(*expression.operands[0], innermost, scope));
  } else {
    REM_ASSIGN_OR_RETURN(subject, Evaluate(*expression.operands[0], scope));
  }
  REM_ASSIGN_OR_RETURN(const JinjaArguments arguments, Arguments(expression.arguments, scope));
  return ApplyJinjaFilter(runtime_, expression.name, subject, arguments);
}

Result<JinjaValue> JinjaInterpreter::EvaluateTest(const JinjaExpression& expression,
                                                  const JinjaScope& scope) {
  REM_ASSIGN_OR_RETURN(const JinjaValue subject, Evaluate(*expression.operands[0], scope));
  REM_ASSIGN_OR_RETURN(const JinjaArguments arguments, Arguments(expression.arguments, scope));
  REM_ASSIGN_OR_RETURN(const bool passes,
                       ApplyJinjaTest(runtime_, expression.name, subject, arguments));
  return JinjaValue(passes);
}

Result<JinjaArguments> JinjaInterpreter::Arguments(const JinjaCallArguments& arguments,
                                                   const JinjaScope& scope) {
  JinjaArguments evaluated;
  for (const JinjaExpressionPtr& argument : arguments.positional) {
    REM_ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*argument, scope));
    evaluated.positional.push_back(std::move(value));
  }
  for (const auto& [name, argument] : arguments.keywords) {
    REM_ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*argument, scope));
    evaluated.keywords.emplace_back(name, std::move(value));
  }
  return evaluated;
}

Result<JinjaValue> JinjaInterpreter::EvaluateCall(const JinjaExpression& expression,
                                                  const JinjaScope& scope,
                                                  const JinjaValue* caller) {
  const JinjaExpression& callee = *expression.operands[0];
  if (callee.kind != Kind::kAttribute) {
    REM_ASSIGN_OR_RETURN(const JinjaValue function, Evaluate(callee, scope));
    REM_ASSIGN_OR_RETURN(const JinjaArguments arguments, Arguments(expression.arguments, scope));
    return Call(function, arguments, caller);
  }
  REM_ASSIGN_OR_RETURN(const JinjaValue object, Evaluate(*callee.operands[0], scope));
  REM_ASSIGN_OR_RETURN(const JinjaArguments arguments, Arguments(expression.arguments, scope));
  if (HasJinjaMethod(object, callee.name)) {
    return CallJinjaMethod(runtime_, object, callee.name, arguments);
  }
  if (JinjaLoop* loop = object.loop()) return CallLoopMethod(*loop, callee.name, arguments);
  REM_ASSIGN_OR_RETURN(const JinjaValue function, JinjaAttribute(object, callee.name));
  return Call(function, arguments, caller);
}

Result<JinjaValue> JinjaInterpreter::Call(const JinjaValue& callee, const JinjaArguments& arguments,
                                          const JinjaValue* caller) {
  REM_RETURN_IF_ERROR(JinjaDefined(callee));
  if (const JinjaMacro* macro = callee.macro()) return CallMacro(*macro, arguments, caller);
  if (const JinjaFunction* function = callee.function()) {
    return CallFunction(function->name, arguments);
  }
  if (const JinjaLoop* loop = callee.loop()) return CallLoop(*loop, arguments);
  return InvalidArgument("'" + std::string(callee.TypeName()) + "' object is not callable");
}

Result<JinjaValue> JinjaInterpreter::CallFunction(std::string_view name,
                                                  const JinjaArguments& arguments) {
  if (name == "range") return Range(runtime_, arguments);
  if (name == "raise_exception") return Raise(arguments);
  if (name == "strftime_now") return FormatTime(runtime_.clock(), arguments);
  REM_ASSIGN_OR_RETURN(JinjaMap map, MapOf(arguments));
  if (name == "dict") return JinjaValue(std::move(map));
  namespaces_.push_back(std::make_shared<JinjaNamespace>(JinjaNamespace{std::move(map)}));
  return JinjaValue(namespaces_.back());
}

Result<JinjaValue> JinjaInterpreter::Raise(const JinjaArguments& arguments) {
  SpanText message;
  if (!arguments.positional.empty()) {
    REM_RETURN_IF_ERROR(AppendJinjaText(runtime_, arguments.positional[0], message));
  }
  error_is_complete_ = true;
  return InvalidArgument(message.text());
}

Result<JinjaValue> JinjaInterpreter::CallMacro(const JinjaMacro& macro,
                                               const JinjaArguments& arguments,
                                               const JinjaValue* caller) {
  const JinjaStatement& statement = *macro.statement;
  const std::vector<JinjaParameter>& parameters = statement.parameters;
  if (arguments.positional.size() > parameters.size()) {
    return InvalidArgument("macro '" + statement.name + "' takes not more than " +
                           std::to_string(parameters.size()) + " argument(s)");
  }
  for (const auto& keyword : arguments.keywords) {
    const bool known =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const auto& parameter) { return parameter.name == keyword.first; });
    if (!known) {
      return InvalidArgument("macro '" + statement.name + "' takes no keyword argument '" +
                             keyword.first + "'");
    }
  }
  JinjaScope& scope = NewScope(*macro.scope);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const JinjaParameter& parameter = parameters[i];
    JinjaValue value(JinjaUndefined{"parameter '" + parameter.name + "' was not provided"});
    if (const JinjaValue* given = arguments.Find(i, parameter.name)) {
      value = *given;
    } else if (parameter.fallback != nullptr) {
      REM_ASSIGN_OR_RETURN(value, Evaluate(*parameter.fallback, scope));
    }
    scope.Set(parameter.name, std::move(value));
  }
  if (caller != nullptr) scope.Set("caller", *caller);
  SpanText text;
  REM_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow, Run(statement.body, scope, text));
  return JinjaValue(std::move(text));
}

// loop(children) in a recursive loop.
Result<JinjaValue> JinjaInterpreter::CallLoop(const JinjaLoop& loop,
                                              const JinjaArguments& arguments) {
  if (!loop.statement->recursive || loop.items == nullptr || arguments.positional.size() != 1) {
    return InvalidArgument("loop() needs a recursive loop and what to loop over");
  }
  SpanText text;
  REM_ASSIGN_OR_RETURN(
      [[maybe_unused]] const Flow flow,
      Loop(*loop.statement, arguments.positional[0], loop.depth + 1, NewScope(*loop.scope), text));
  return JinjaValue(std::move(text));
}

Result<JinjaValue> JinjaInterpreter::CallLoopMethod(JinjaLoop& loop, std::string_view name,
                                                    const JinjaArguments& arguments) {
  const std::vector<JinjaValue>& given = arguments.positional;
  if (name == "cycle" && !given.empty()) return given[loop.index % given.size()];
  if (name != "changed") return InvalidArgument("'loop' has no method '" + std::string(name) + "'");
  bool same = loop.has_changed_before && given.size() == loop.last_changed.size();
  for (size_t i = 0; same && i < given.size(); ++i) {
    REM_ASSIGN_OR_RETURN(same, JinjaEqual(runtime_, given[i], loop.last_changed[i]));
  }
  loop.has_changed_before = true;
  loop.last_changed = given;
  return JinjaValue(!same);
}

}  // namespace remontoir
