// A parsed chat template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja_value.h"

namespace remontoir {

struct JinjaExpression;
using JinjaExpressionPtr = std::unique_ptr<JinjaExpression>;

// Arguments of a call, a filter or a test.
struct JinjaCallArguments {
  std::vector<JinjaExpressionPtr> positional;
  std::vector<std::pair<std::string, JinjaExpressionPtr>> keywords;
};

struct JinjaExpression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, ...
    kAttribute,    // operands[0].name
    kSubscript,    // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1]:operands[2]:operands[3]], nullptr where left out
    kCall,         // operands[0](arguments)
    kFilter,       // operands[0] | name(arguments); in a filter block operands is empty
    kTest,         // operands[0] is name(arguments)
    kNot,          // not operands[0]
    kNegate,       // -operands[0]
    kPlus,         // +operands[0]
    kBinary,       // operands[0] name operands[1]; name is an arithmetic operator or ~
    kCompare,      // operands[0] operators[0] operands[1] operators[1] ...
    kAnd,          // operands[0] and operands[1]
    kOr,           // operands[0] or operands[1]
    kConditional,  // operands[1] if operands[0] else operands[2], which may be nullptr
  };

  Kind kind;
  int line;
  std::string name;
  JinjaValue constant;
  std::vector<JinjaExpressionPtr> operands;
  std::vector<std::string> operators;
  JinjaCallArguments arguments;
};

struct JinjaStatement;
using JinjaBody = std::vector<std::unique_ptr<JinjaStatement>>;

// What an assignment or a loop writes to.
struct JinjaTarget {
  std::vector<std::string> names;  // one, or several to be unpacked to
  std::string attribute;           // of the namespace names[0]; empty: the variable itself
  bool unpacks = false;
};

struct JinjaParameter {
  std::string name;
  JinjaExpressionPtr fallback;  // nullptr: none
};

struct JinjaStatement {
  enum class Kind {
    kText,       // text
    kOutput,     // {{ expression }}
    kIf,         // expression, body, otherwise
    kFor,        // target in expression if condition: body, otherwise when nothing was looped over
    kSet,        // target = expression
    kSetBlock,   // target = body's output, through expression (a chain of filters) if there is one
    kMacro,      // name(parameters): body
    kCallBlock,  // expression (a call) with caller(parameters): body
    kFilterBlock,  // body's output through expression
    kWith,         // assignments, body in a scope of its own
    kScope,        // body as it is
    kBreak,
    kContinue,
  };

  Kind kind;
  int line;
  std::string text;
  std::string name;
  JinjaTarget target;
  JinjaExpressionPtr expression;
  JinjaExpressionPtr condition;
  bool recursive = false;
  std::vector<JinjaParameter> parameters;
  std::vector<std::pair<JinjaTarget, JinjaExpressionPtr>> assignments;
  JinjaBody body;
  JinjaBody otherwise;
};

struct JinjaTemplate {
  JinjaBody body;
};

}  // namespace remontoir
