// The half of the parser that reads expressions.
#pragma once

#include "base/status.h"
#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_token_reader.h"

namespace remontoir {

class JinjaExpressionParser {
 public:
  // The reader must outlive it.
  explicit JinjaExpressionParser(JinjaTokenReader& reader) : reader_(reader) {}

  Result<JinjaExpressionPtr> Expression(bool with_conditional = true);
  // An expression, or a tuple of several with commas between.
  Result<JinjaExpressionPtr> Tuple(bool with_conditional = true);
  // name(arguments) | ...: the filters after `|`, applied to `subject` (nullptr in a filter block).
  Result<JinjaExpressionPtr> Filters(JinjaExpressionPtr subject);

 private:
  using Kind = JinjaExpression::Kind;

  Result<JinjaExpressionPtr> Or();
  Result<JinjaExpressionPtr> And();
  Result<JinjaExpressionPtr> Not();
  Result<JinjaExpressionPtr> Compare();
  Result<JinjaExpressionPtr> Binary(size_t level);
  Result<JinjaExpressionPtr> Unary(bool with_filters);
  Result<JinjaExpressionPtr> Primary();
  Result<JinjaExpressionPtr> Postfix(JinjaExpressionPtr expression);
  Result<JinjaExpressionPtr> FiltersAndTests(JinjaExpressionPtr expression);
  Result<JinjaExpressionPtr> Filter(JinjaExpressionPtr subject);
  Result<JinjaExpressionPtr> Test(JinjaExpressionPtr subject);
  Result<JinjaExpressionPtr> Subscript(JinjaExpressionPtr subject);
  Result<JinjaExpressionPtr> Parenthesized();
  Result<JinjaExpressionPtr> ListLiteral();
  Result<JinjaExpressionPtr> DictLiteral();
  Result<JinjaExpressionPtr> Literal();
  Result<std::string> DottedName();
  Status Arguments(JinjaCallArguments& arguments);

  JinjaExpressionPtr Make(Kind kind) const;
  JinjaExpressionPtr Make(Kind kind, JinjaExpressionPtr a, JinjaExpressionPtr b = nullptr) const;

  JinjaTokenReader& reader_;
};

}  // namespace remontoir
