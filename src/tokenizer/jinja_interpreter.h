// Runs a parsed template.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"
#include "tokenizer/span_text.h"

namespace remontoir {

// Names and their values; what isn't found here is looked up in the parent.
class JinjaScope {
 public:
  explicit JinjaScope(const JinjaScope* parent) : parent_(parent) {}

  void Set(std::string_view name, JinjaValue value);
  const JinjaValue* Find(std::string_view name) const;  // nullptr: nowhere
  void Clear() { variables_.clear(); }

 private:
  const JinjaScope* parent_;
  std::vector<std::pair<std::string, JinjaValue>> variables_;
};

// A macro, or the body that a call block hands over as `caller`.
struct JinjaMacro {
  const JinjaStatement* statement;
  const JinjaScope* scope;  // where it was defined
};

// The variable `loop`.
struct JinjaLoop {
  const std::vector<JinjaValue>* items;  // nullptr when the loop is over
  size_t index = 0;
  int depth = 1;
  const JinjaStatement* statement;
  const JinjaScope* scope;  // around the loop
  std::vector<JinjaValue> last_changed;
  bool has_changed_before = false;
};

// For one rendering.
class JinjaInterpreter {
 public:
  // Both must outlive it.
  JinjaInterpreter(const JinjaTemplate& parsed, JinjaRuntime& runtime);
  ~JinjaInterpreter();
  JinjaInterpreter(const JinjaInterpreter&) = delete;
  JinjaInterpreter& operator=(const JinjaInterpreter&) = delete;

  void Define(std::string_view name, JinjaValue value) { root_.Set(name, std::move(value)); }

  // The message of raise_exception() as it is; other errors name the template's line.
  Result<SpanText> Render();

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements, writing to `out`.
  Result<Flow> Run(const JinjaBody& body, JinjaScope& scope, SpanText& out);
  Result<Flow> RunOne(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Result<Flow> RunIf(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Result<Flow> RunFor(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Result<Flow> RunWith(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Status RunOutput(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Status RunSet(const JinjaStatement& statement, JinjaScope& scope);
  Result<Flow> RunSetBlock(const JinjaStatement& statement, JinjaScope& scope);
  Status RunCallBlock(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Result<Flow> RunFilterBlock(const JinjaStatement& statement, JinjaScope& scope, SpanText& out);
  Result<Flow> Loop(const JinjaStatement& statement, const JinjaValue& iterable, int depth,
                    JinjaScope& scope, SpanText& out);
  Result<std::vector<JinjaValue>> LoopItems(const JinjaStatement& statement,
                                            const JinjaValue& iterable, const JinjaScope& scope);
  Status Append(const JinjaValue& value, SpanText& out);
  Status Assign(const JinjaTarget& target, const JinjaValue& value, JinjaScope& scope);

  // Expressions.
  Result<JinjaValue> Evaluate(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateOperator(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateCompare(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateLiteral(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateAccess(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateFilter(const JinjaExpression& expression, const JinjaValue* innermost,
                                    const JinjaScope& scope);
  Result<JinjaValue> EvaluateTest(const JinjaExpression& expression, const JinjaScope& scope);
  Result<JinjaValue> EvaluateCall(const JinjaExpression& expression, const JinjaScope& scope,
                                  const JinjaValue* caller);
  Result<JinjaArguments> Arguments(const JinjaCallArguments& arguments, const JinjaScope& scope);
  Result<JinjaValue> Variable(const JinjaExpression& expression, const JinjaScope& scope) const;

  // Calls.
  Result<JinjaValue> Call(const JinjaValue& callee, const JinjaArguments& arguments,
                          const JinjaValue* caller);
  Result<JinjaValue> CallMacro(const JinjaMacro& macro, const JinjaArguments& arguments,
                               const JinjaValue* caller);
  Result<JinjaValue> CallFunction(std::string_view name, const JinjaArguments& arguments);
  Result<JinjaValue> CallLoop(const JinjaLoop& loop, const JinjaArguments& arguments);
  Result<JinjaValue> CallLoopMethod(JinjaLoop& loop, std::string_view name,
                                    const JinjaArguments& arguments);
  Result<JinjaValue> Raise(const JinjaArguments& arguments);

  JinjaScope& NewScope(const JinjaScope& parent);

  const JinjaTemplate& template_;
  JinjaRuntime& runtime_;
  JinjaScope root_;
  std::deque<JinjaScope> scopes_;  // those that a macro may have captured live until the end
  std::vector<std::shared_ptr<JinjaNamespace>> namespaces_;
  bool error_is_complete_ = false;
};

}  // namespace remontoir
