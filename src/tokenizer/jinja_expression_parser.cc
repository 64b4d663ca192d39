// Recursive descent, one function a level of precedence.
#include "tokenizer/jinja_expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace remontoir {
namespace {

// Binary operators that group to the left, loosest first.
struct Level {
  std::array<std::string_view, 4> operators;
};
constexpr Level kLevels[] = {{{"+", "-"}}, {{"~"}}, {{"*", "/", "//", "%"}}, {{"**"}}};

constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};

}  // namespace

JinjaExpressionPtr JinjaExpressionParser::Make(Kind kind) const {
  auto expression = std::make_unique<JinjaExpression>();
  expression->kind = kind;
  expression->line = reader_.Peek().line;
  return expression;
}

JinjaExpressionPtr JinjaExpressionParser::Make(Kind kind, JinjaExpressionPtr a,
                                               JinjaExpressionPtr b) const {
  JinjaExpressionPtr expression = Make(kind);
  expression->line = a->line;
  expression->operands.push_back(std::move(a));
  if (b != nullptr) expression->operands.push_back(std::move(b));
  return expression;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Tuple(bool with_conditional) {
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr first, Expression(with_conditional));
  if (!reader_.IsOperator(",")) return first;
  JinjaExpressionPtr tuple = Make(Kind::kTuple, std::move(first));
  while (reader_.TakeOperator(",")) {
    const JinjaToken::Kind next = reader_.Peek().kind;
    if (next == JinjaToken::Kind::kBlockEnd || next == JinjaToken::Kind::kVariableEnd ||
        reader_.IsOperator(")")) {
      break;
    }
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr item, Expression(with_conditional));
    tuple->operands.push_back(std::move(item));
  }
  return tuple;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Expression(bool with_conditional) {
  const JinjaTokenReader::Nesting nesting(reader_);
  REM_RETURN_IF_ERROR(nesting.Check());
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr value, Or());
  int chained = 0;
  while (with_conditional && reader_.TakeName("if")) {
    if (++chained > JinjaTokenReader::kChainMax) return reader_.Error("too many conditions");
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr condition, Or());
    JinjaExpressionPtr conditional =
        Make(Kind::kConditional, std::move(condition), std::move(value));
    JinjaExpressionPtr otherwise;
    if (reader_.TakeName("else")) {
      REM_ASSIGN_OR_RETURN(otherwise, Expression());
    }
    conditional->operands.push_back(std::move(otherwise));
    value = std::move(conditional);
  }
  return value;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Or() {
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr left, And());
  for (int chained = 0; reader_.TakeName("or"); ++chained) {
    if (chained > JinjaTokenReader::kChainMax) return reader_.Error("too many 'or' in a row");
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr right, And());
    left = Make(Kind::kOr, std::move(left), std::move(right));
  }
  return left;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::And() {
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr left, Not());
  for (int chained = 0; reader_.TakeName("and"); ++chained) {
    if (chained > JinjaTokenReader::kChainMax) return reader_.Error("too many 'and' in a row");
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr right, Not());
    left = Make(Kind::kAnd, std::move(left), std::move(right));
  }
  return left;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Not() {
  if (!reader_.TakeName("not")) return Compare();
  const JinjaTokenReader::Nesting nesting(reader_);
  REM_RETURN_IF_ERROR(nesting.Check());
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr operand, Not());
  return Make(Kind::kNot, std::move(operand));
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Compare() {
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr left, Binary(0));
  JinjaExpressionPtr compare;
  while (true) {
    std::string comparison;
    const JinjaToken& token = reader_.Peek();
    if (token.kind == JinjaToken::Kind::kOperator &&
        std::find(std::begin(kComparisons), std::end(kComparisons), token.value) !=
            std::end(kComparisons)) {
      comparison = reader_.Take().value;
    } else if (reader_.TakeName("in")) {
      comparison = "in";
    } else if (reader_.IsName("not") && reader_.Peek(1).value == "in") {
      reader_.Take();
      reader_.Take();
      comparison = "not in";
    } else {
      break;
    }
    if (compare == nullptr) compare = Make(Kind::kCompare, std::move(left));
    compare->operators.push_back(std::move(comparison));
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr right, Binary(0));
    compare->operands.push_back(std::move(right));
  }
  if (compare != nullptr) return compare;
  return left;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Binary(size_t level) {
  if (level == std::size(kLevels)) return Unary(/*with_filters=*/true);
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr left, Binary(level + 1));
  const auto& operators = kLevels[level].operators;
  int chained = 0;
  while (reader_.Peek().kind == JinjaToken::Kind::kOperator &&
         std::find(operators.begin(), operators.end(), reader_.Peek().value) != operators.end()) {
    if (++chained > JinjaTokenReader::kDepthMax)
      return reader_.Error("too many operators in a row");
    const std::string name = reader_.Take().value;
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr right, Binary(level + 1));
    left = Make(Kind::kBinary, std::move(left), std::move(right));
    left->name = name;
  }
  return left;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Unary(bool with_filters) {
  const JinjaTokenReader::Nesting nesting(reader_);
  REM_RETURN_IF_ERROR(nesting.Check());
  JinjaExpressionPtr expression;
  if (reader_.IsOperator("-") || reader_.IsOperator("+")) {
    const Kind kind = reader_.Take().value == "-" ? Kind::kNegate : Kind::kPlus;
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr operand, Unary(/*with_filters=*/false));
    expression = Make(kind, std::move(operand));
  } else {
    REM_ASSIGN_OR_RETURN(expression, Primary());
  }
  REM_ASSIGN_OR_RETURN(expression, Postfix(std::move(expression)));
  if (!with_filters) return expression;
  return FiltersAndTests(std::move(expression));
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Postfix(JinjaExpressionPtr expression) {
  for (int chained = 0;; ++chained) {
    if (chained > JinjaTokenReader::kChainMax) return reader_.Error("too many accesses in a row");
    if (reader_.TakeOperator(".")) {
      if (reader_.Peek().kind == JinjaToken::Kind::kInteger) {
        REM_ASSIGN_OR_RETURN(JinjaExpressionPtr index, Literal());
        expression = Make(Kind::kSubscript, std::move(expression), std::move(index));
        continue;
      }
      REM_ASSIGN_OR_RETURN(std::string name, reader_.ExpectName());
      expression = Make(Kind::kAttribute, std::move(expression));
      expression->name = std::move(name);
    } else if (reader_.TakeOperator("[")) {
      REM_ASSIGN_OR_RETURN(expression, Subscript(std::move(expression)));
    } else if (reader_.TakeOperator("(")) {
      expression = Make(Kind::kCall, std::move(expression));
      REM_RETURN_IF_ERROR(Arguments(expression->arguments));
    } else {
      return expression;
    }
  }
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Subscript(JinjaExpressionPtr subject) {
  std::array<JinjaExpressionPtr, 3> parts;
  size_t part = 0;
  while (!reader_.IsOperator("]")) {
    if (reader_.TakeOperator(":")) {
      if (++part == parts.size()) return reader_.Error("a slice has three parts at most");
      continue;
    }
    if (parts[part] != nullptr) return reader_.Expected("']'");
    REM_ASSIGN_OR_RETURN(parts[part], Expression());
  }
  reader_.Take();
  if (part == 0) {
    if (parts[0] == nullptr) return reader_.Expected("a subscript");
    return Make(Kind::kSubscript, std::move(subject), std::move(parts[0]));
  }
  JinjaExpressionPtr slice = Make(Kind::kSlice, std::move(subject));
  for (JinjaExpressionPtr& p : parts) slice->operands.push_back(std::move(p));
  return slice;
}

Status JinjaExpressionParser::Arguments(JinjaCallArguments& arguments) {
  while (!reader_.IsOperator(")")) {
    if (reader_.Peek().kind == JinjaToken::Kind::kName && reader_.Peek(1).value == "=" &&
        reader_.Peek(1).kind == JinjaToken::Kind::kOperator) {
      std::string name = reader_.Take().value;
      reader_.Take();
      REM_ASSIGN_OR_RETURN(JinjaExpressionPtr value, Expression());
      arguments.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments.keywords.empty())
        return reader_.Error("a positional argument after a keyword");
      REM_ASSIGN_OR_RETURN(JinjaExpressionPtr value, Expression());
      arguments.positional.push_back(std::move(value));
    }
    if (!reader_.TakeOperator(",")) break;
  }
  return reader_.ExpectOperator(")");
}

Result<JinjaExpressionPtr> JinjaExpressionParser::FiltersAndTests(JinjaExpressionPtr expression) {
  for (int chained = 0;; ++chained) {
    if (chained > JinjaTokenReader::kChainMax) return reader_.Error("too many filters in a row");
    if (reader_.TakeOperator("|")) {
      REM_ASSIGN_OR_RETURN(expression, Filter(std::move(expression)));
    } else if (reader_.TakeName("is")) {
      REM_ASSIGN_OR_RETURN(expression, Test(std::move(expression)));
    } else if (reader_.TakeOperator("(")) {
      expression = Make(Kind::kCall, std::move(expression));
      REM_RETURN_IF_ERROR(Arguments(expression->arguments));
    } else {
      return expression;
    }
  }
}

Result<std::string> JinjaExpressionParser::DottedName() {
  REM_ASSIGN_OR_RETURN(std::string name, reader_.ExpectName());
  while (reader_.TakeOperator(".")) {
    REM_ASSIGN_OR_RETURN(const std::string part, reader_.ExpectName());
    name += "." + part;
  }
  return name;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Filter(JinjaExpressionPtr subject) {
  JinjaExpressionPtr filter = Make(Kind::kFilter);
  REM_ASSIGN_OR_RETURN(filter->name, DottedName());
  if (subject != nullptr) filter->operands.push_back(std::move(subject));
  if (reader_.TakeOperator("(")) REM_RETURN_IF_ERROR(Arguments(filter->arguments));
  return filter;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Filters(JinjaExpressionPtr subject) {
  for (int chained = 0;; ++chained) {
    if (chained > JinjaTokenReader::kChainMax) return reader_.Error("too many filters in a row");
    REM_ASSIGN_OR_RETURN(subject, Filter(std::move(subject)));
    if (!reader_.TakeOperator("|")) return subject;
  }
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Test(JinjaExpressionPtr subject) {
  const bool negated = reader_.TakeName("not");
  JinjaExpressionPtr test = Make(Kind::kTest, std::move(subject));
  REM_ASSIGN_OR_RETURN(test->name, DottedName());
  const JinjaToken& next = reader_.Peek();
  const bool literal =
      next.kind == JinjaToken::Kind::kString || next.kind == JinjaToken::Kind::kInteger ||
      next.kind == JinjaToken::Kind::kFloat || reader_.IsOperator("[") || reader_.IsOperator("{");
  const bool name = next.kind == JinjaToken::Kind::kName && next.value != "else" &&
                    next.value != "or" && next.value != "and" && next.value != "if" &&
                    next.value != "in" && next.value != "not";
  if (reader_.TakeOperator("(")) {
    REM_RETURN_IF_ERROR(Arguments(test->arguments));
  } else if (literal || name) {
    if (reader_.IsName("is")) return reader_.Error("tests can't be chained with 'is'");
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr argument, Primary());
    REM_ASSIGN_OR_RETURN(argument, Postfix(std::move(argument)));
    test->arguments.positional.push_back(std::move(argument));
  }
  if (!negated) return test;
  return Make(Kind::kNot, std::move(test));
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Primary() {
  if (reader_.TakeOperator("(")) return Parenthesized();
  if (reader_.TakeOperator("[")) return ListLiteral();
  if (reader_.TakeOperator("{")) return DictLiteral();
  if (reader_.Peek().kind != JinjaToken::Kind::kName) return Literal();
  JinjaExpressionPtr expression = Make(Kind::kName);
  expression->name = reader_.Take().value;
  const std::string& name = expression->name;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    expression->kind = Kind::kConstant;
    expression->constant = JinjaValue(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    expression->kind = Kind::kConstant;
  }
  return expression;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Literal() {
  JinjaExpressionPtr expression = Make(Kind::kConstant);
  const JinjaToken token = reader_.Peek();
  const char* const begin = token.value.data();
  const char* const end = begin + token.value.size();
  if (token.kind == JinjaToken::Kind::kInteger) {
    int64_t value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) {
      return reader_.Error("the number " + token.value.substr(0, 40) + " is too large");
    }
    expression->constant = JinjaValue(value);
  } else if (token.kind == JinjaToken::Kind::kFloat) {
    double value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) {
      return reader_.Error("the number " + token.value.substr(0, 40) + " can't be represented");
    }
    expression->constant = JinjaValue(value);
  } else if (token.kind == JinjaToken::Kind::kString) {
    std::string text;
    while (reader_.Peek().kind == JinjaToken::Kind::kString) text += reader_.Take().value;
    expression->constant = JinjaValue::Template(text);
    return expression;
  } else {
    return reader_.Expected("an expression");
  }
  reader_.Take();
  return expression;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::Parenthesized() {
  if (reader_.TakeOperator(")")) return Make(Kind::kTuple);
  REM_ASSIGN_OR_RETURN(JinjaExpressionPtr inner, Tuple());
  REM_RETURN_IF_ERROR(reader_.ExpectOperator(")"));
  return inner;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::ListLiteral() {
  JinjaExpressionPtr list = Make(Kind::kList);
  while (!reader_.IsOperator("]")) {
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr item, Expression());
    list->operands.push_back(std::move(item));
    if (!reader_.TakeOperator(",")) break;
  }
  REM_RETURN_IF_ERROR(reader_.ExpectOperator("]"));
  return list;
}

Result<JinjaExpressionPtr> JinjaExpressionParser::DictLiteral() {
  JinjaExpressionPtr dict = Make(Kind::kDict);
  while (!reader_.IsOperator("}")) {
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr key, Expression());
    REM_RETURN_IF_ERROR(reader_.ExpectOperator(":"));
    REM_ASSIGN_OR_RETURN(JinjaExpressionPtr value, Expression());
    dict->operands.push_back(std::move(key));
    dict->operands.push_back(std::move(value));
    if (!reader_.TakeOperator(",")) break;
  }
  REM_RETURN_IF_ERROR(reader_.ExpectOperator("}"));
  return dict;
}

}  // namespace remontoir
