// Statements: what writes, loops and assigns.
#include "tokenizer/jinja_interpreter.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

constexpr std::array<std::string_view, 5> kFunctions = {"range", "dict", "namespace",
                                                        "raise_exception", "strftime_now"};

}  // namespace

void JinjaScope::Set(std::string_view name, JinjaValue value) {
  for (auto& [known, held] : variables_) {
    if (known != name) continue;
    held = std::move(value);
    return;
  }
  variables_.emplace_back(name, std::move(value));
}

const JinjaValue* JinjaScope::Find(std::string_view name) const {
  for (const JinjaScope* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const auto& [known, value] : scope->variables_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

JinjaInterpreter::JinjaInterpreter(const JinjaTemplate& parsed, JinjaRuntime& runtime)
    : template_(parsed), runtime_(runtime), root_(nullptr) {
  for (std::string_view name : kFunctions) Define(name, JinjaFunction{name});
}

// A namespace may hold itself: emptied, it is freed.
JinjaInterpreter::~JinjaInterpreter() {
  for (const auto& space : namespaces_) space->attributes = {};
}

JinjaScope& JinjaInterpreter::NewScope(const JinjaScope& parent) {
  return scopes_.emplace_back(&parent);
}

Result<SpanText> JinjaInterpreter::Render() {
  SpanText out;
  JinjaScope& scope = NewScope(root_);
  const Result<Flow> flow = Run(template_.body, scope, out);
  if (!flow.ok()) return flow.status();
  return out;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::Run(const JinjaBody& body, JinjaScope& scope,
                                                     SpanText& out) {
  const JinjaRuntime::Nesting nesting(runtime_);
  REM_RETURN_IF_ERROR(nesting.Check());
  for (const auto& statement : body) {
    REM_RETURN_IF_ERROR(runtime_.Spend());
    Result<Flow> flow = RunOne(*statement, scope, out);
    if (!flow.ok()) {
      const Status& error = flow.status();
      if (std::exchange(error_is_complete_, true) ||
          error.code() == StatusCode::kResourceExhausted) {
        return error;
      }
      return error.WithContext("chat template, line " + std::to_string(statement->line));
    }
    if (*flow != Flow::kNext) return *flow;
  }
  return Flow::kNext;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::RunOne(const JinjaStatement& statement,
                                                        JinjaScope& scope, SpanText& out) {
  using Kind = JinjaStatement::Kind;
  switch (statement.kind) {
    case Kind::kText:
      REM_RETURN_IF_ERROR(
          runtime_.Spend(out.size() + statement.text.size(), statement.text.size()));
      out.Append(statement.text, Origin::kTemplate);
      return Flow::kNext;
    case Kind::kOutput: REM_RETURN_IF_ERROR(RunOutput(statement, scope, out)); return Flow::kNext;
    case Kind::kIf: return RunIf(statement, scope, out);
    case Kind::kFor: return RunFor(statement, scope, out);
    case Kind::kSet: REM_RETURN_IF_ERROR(RunSet(statement, scope)); return Flow::kNext;
    case Kind::kSetBlock: return RunSetBlock(statement, scope);
    case Kind::kMacro:
      scope.Set(statement.name, std::make_shared<const JinjaMacro>(JinjaMacro{&statement, &scope}));
      return Flow::kNext;
    case Kind::kCallBlock:
      REM_RETURN_IF_ERROR(RunCallBlock(statement, scope, out));
      return Flow::kNext;
    case Kind::kFilterBlock: return RunFilterBlock(statement, scope, out);
    case Kind::kWith: return RunWith(statement, scope, out);
    case Kind::kScope: return Run(statement.body, scope, out);
    case Kind::kBreak: return Flow::kBreak;
    case Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Status JinjaInterpreter::Append(const JinjaValue& value, SpanText& out) {
  REM_RETURN_IF_ERROR(AppendJinjaText(runtime_, value, out));
  return runtime_.Spend(out.size(), 0);
}

Status JinjaInterpreter::RunOutput(const JinjaStatement& statement, JinjaScope& scope,
                                   SpanText& out) {
  REM_ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*statement.expression, scope));
  return Append(value, out);
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::RunIf(const JinjaStatement& statement,
                                                       JinjaScope& scope, SpanText& out) {
  REM_ASSIGN_OR_RETURN(const JinjaValue condition, Evaluate(*statement.expression, scope));
  return Run(condition.Truth() ? statement.body : statement.otherwise, scope, out);
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::RunFor(const JinjaStatement& statement,
                                                        JinjaScope& scope, SpanText& out) {
  REM_ASSIGN_OR_RETURN(const JinjaValue iterable, Evaluate(*statement.expression, scope));
  return Loop(statement, iterable, 1, scope, out);
}

Result<std::vector<JinjaValue>> JinjaInterpreter::LoopItems(const JinjaStatement& statement,
                                                            const JinjaValue& iterable,
                                                            const JinjaScope& scope) {
  REM_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaItems(runtime_, iterable));
  if (statement.condition == nullptr) return items;
  std::vector<JinjaValue> kept;
  JinjaScope inner(&scope);
  for (JinjaValue& item : items) {
    REM_RETURN_IF_ERROR(Assign(statement.target, item, inner));
    REM_ASSIGN_OR_RETURN(const JinjaValue condition, Evaluate(*statement.condition, inner));
    if (condition.Truth()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::Loop(const JinjaStatement& statement,
                                                      const JinjaValue& iterable, int depth,
                                                      JinjaScope& scope, SpanText& out) {
  REM_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, LoopItems(statement, iterable, scope));
  if (items.empty()) return Run(statement.otherwise, scope, out);
  const auto loop = std::make_shared<JinjaLoop>();
  loop->items = &items;
  loop->depth = depth;
  loop->statement = &statement;
  loop->scope = &scope;
  JinjaScope& inner = NewScope(scope);
  Result<Flow> flow = Flow::kNext;
  for (; loop->index < items.size(); ++loop->index) {
    inner.Clear();  // what one iteration sets is gone in the next
    inner.Set("loop", loop);
    const Status assigned = Assign(statement.target, items[loop->index], inner);
    flow = assigned.ok() ? Run(statement.body, inner, out) : Result<Flow>(assigned);
    if (!flow.ok() || *flow == Flow::kBreak) break;
  }
  loop->items = nullptr;
  loop->last_changed.clear();  // may hold the loop itself
  if (!flow.ok()) return flow;
  return Flow::kNext;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::RunWith(const JinjaStatement& statement,
                                                         JinjaScope& scope, SpanText& out) {
  JinjaScope& inner = NewScope(scope);
  for (const auto& [target, expression] : statement.assignments) {
    REM_ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*expression, scope));
    REM_RETURN_IF_ERROR(Assign(target, value, inner));
  }
  return Run(statement.body, inner, out);
}

Status JinjaInterpreter::RunSet(const JinjaStatement& statement, JinjaScope& scope) {
  REM_ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*statement.expression, scope));
  return Assign(statement.target, value, scope);
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::RunSetBlock(const JinjaStatement& statement,
                                                             JinjaScope& scope) {
  SpanText text;
  REM_ASSIGN_OR_RETURN(const Flow flow, Run(statement.body, NewScope(scope), text));
  JinjaValue value(std::move(text));
  if (statement.expression != nullptr) {
    REM_ASSIGN_OR_RETURN(value, EvaluateFilter(*statement.expression, &value, scope));
  }
  REM_RETURN_IF_ERROR(Assign(statement.target, value, scope));
  return flow;
}

Status JinjaInterpreter::RunCallBlock(const JinjaStatement& statement, JinjaScope& scope,
                                      SpanText& out) {
  const JinjaValue caller(std::make_shared<const JinjaMacro>(JinjaMacro{&statement, &scope}));
  REM_ASSIGN_OR_RETURN(const JinjaValue value, EvaluateCall(*statement.expression, scope, &caller));
  return Append(value, out);
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::RunFilterBlock(const JinjaStatement& statement,
                                                                JinjaScope& scope, SpanText& out) {
  SpanText text;
  REM_ASSIGN_OR_RETURN(const Flow flow, Run(statement.body, NewScope(scope), text));
  const JinjaValue value(std::move(text));
  REM_ASSIGN_OR_RETURN(const JinjaValue filtered,
                       EvaluateFilter(*statement.expression, &value, scope));
  REM_RETURN_IF_ERROR(Append(filtered, out));
  return flow;
}

Status JinjaInterpreter::Assign(const JinjaTarget& target, const JinjaValue& value,
                                JinjaScope& scope) {
  if (!target.attribute.empty()) {
    const JinjaValue* held = scope.Find(target.names[0]);
    JinjaNamespace* space = held == nullptr ? nullptr : held->name_space();
    if (space == nullptr) {
      return InvalidArgument("cannot assign attribute '" + target.attribute +
                             "' on an object that is no namespace");
    }
    space->attributes.Set(JinjaValue::Template(target.attribute), value);
    return Status::Ok();
  }
  if (!target.unpacks) {
    scope.Set(target.names[0], value);
    return Status::Ok();
  }
  REM_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaItems(runtime_, value));
  if (items.size() != target.names.size()) {
    return InvalidArgument("can't unpack " + std::to_string(items.size()) + " values to " +
                           std::to_string(target.names.size()) + " names");
  }
  for (size_t i = 0; i < items.size(); ++i) scope.Set(target.names[i], items[i]);
  return Status::Ok();
}

}  // namespace remontoir
