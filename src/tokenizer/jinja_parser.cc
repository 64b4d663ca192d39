// The half of the parser that reads statements.
#include "tokenizer/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "tokenizer/jinja_expression_parser.h"
#include "tokenizer/jinja_lexer.h"
#include "tokenizer/jinja_token_reader.h"

namespace remontoir {
namespace {

using StatementPtr = std::unique_ptr<JinjaStatement>;
using Kind = JinjaStatement::Kind;
using TokenKind = JinjaToken::Kind;

class Parser {
 public:
  explicit Parser(std::vector<JinjaToken> tokens)
      : reader_(std::move(tokens)), expressions_(reader_) {}

  Result<JinjaTemplate> Run() {
    JinjaTemplate parsed;
    REM_RETURN_IF_ERROR(Body({}, parsed.body));
    return parsed;
  }

 private:
  StatementPtr Make(Kind kind) const {
    auto statement = std::make_unique<JinjaStatement>();
    statement->kind = kind;
    statement->line = reader_.Peek().line;
    return statement;
  }

  Status BlockEnd() { return reader_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  // Statements up to a block that begins with one of `ends`, whose name is the next token then; up
  // to the template's end if there are none.
  Status Body(std::initializer_list<std::string_view> ends, JinjaBody& body) {
    const JinjaTokenReader::Nesting nesting(reader_);
    REM_RETURN_IF_ERROR(nesting.Check());
    while (true) {
      switch (reader_.Peek().kind) {
        case TokenKind::kText: {
          StatementPtr text = Make(Kind::kText);
          text->text = reader_.Take().value;
          body.push_back(std::move(text));
          break;
        }
        case TokenKind::kVariableBegin: {
          StatementPtr output = Make(Kind::kOutput);
          reader_.Take();
          REM_ASSIGN_OR_RETURN(output->expression, expressions_.Tuple());
          REM_RETURN_IF_ERROR(reader_.Expect(TokenKind::kVariableEnd, "'}}'"));
          body.push_back(std::move(output));
          break;
        }
        case TokenKind::kBlockBegin: {
          reader_.Take();
          const std::string name = reader_.Peek().value;
          if (std::find(ends.begin(), ends.end(), name) != ends.end()) return Status::Ok();
          REM_ASSIGN_OR_RETURN(StatementPtr statement, Statement());
          body.push_back(std::move(statement));
          break;
        }
        default:
          if (reader_.Peek().kind == TokenKind::kEnd && ends.size() == 0) return Status::Ok();
          return reader_.Expected(ends.size() == 0 ? "text or a tag"
                                                   : "'" + std::string(*(ends.end() - 1)) + "'");
      }
    }
  }

  // A body and its end tag.
  Status BodyAndEnd(std::string_view end, JinjaBody& body) {
    REM_RETURN_IF_ERROR(BlockEnd());
    REM_RETURN_IF_ERROR(Body({end}, body));
    reader_.Take();
    return Status::Ok();
  }

  // After "{%"; takes the "%}".
  Result<StatementPtr> Statement() {
    REM_ASSIGN_OR_RETURN(const std::string name, reader_.ExpectName());
    Result<StatementPtr> statement = Named(name);
    if (!statement.ok()) return statement;
    REM_RETURN_IF_ERROR(BlockEnd());
    return statement;
  }

  Result<StatementPtr> Named(const std::string& name) {
    if (name == "if") return If();
    if (name == "for") return For();
    if (name == "set") return Set();
    if (name == "macro") return Macro();
    if (name == "call") return CallBlock();
    if (name == "filter") return FilterBlock();
    if (name == "with") return With();
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return reader_.Error("'" + name + "' outside of a loop");
      return Make(name == "break" ? Kind::kBreak : Kind::kContinue);
    }
    if (name == "generation") {
      StatementPtr scope = Make(Kind::kScope);
      REM_RETURN_IF_ERROR(BodyAndEnd("endgeneration", scope->body));
      return scope;
    }
    return reader_.Error("unknown tag '" + name.substr(0, 40) + "'");
  }

  Result<StatementPtr> If() {
    StatementPtr statement = Make(Kind::kIf);
    REM_ASSIGN_OR_RETURN(statement->expression, expressions_.Tuple());
    REM_RETURN_IF_ERROR(BlockEnd());
    REM_RETURN_IF_ERROR(Body({"elif", "else", "endif"}, statement->body));
    const std::string next = reader_.Take().value;
    if (next == "elif") {
      const JinjaTokenReader::Nesting nesting(reader_);
      REM_RETURN_IF_ERROR(nesting.Check());
      REM_ASSIGN_OR_RETURN(StatementPtr nested, If());
      statement->otherwise.push_back(std::move(nested));
    } else if (next == "else") {
      REM_RETURN_IF_ERROR(BodyAndEnd("endif", statement->otherwise));
    }
    return statement;
  }

  Result<StatementPtr> For() {
    StatementPtr statement = Make(Kind::kFor);
    REM_ASSIGN_OR_RETURN(statement->target, Target(/*with_attribute=*/false));
    if (!reader_.TakeName("in")) return reader_.Expected("'in'");
    REM_ASSIGN_OR_RETURN(statement->expression, expressions_.Tuple(/*with_conditional=*/false));
    if (reader_.TakeName("if")) {
      REM_ASSIGN_OR_RETURN(statement->condition, expressions_.Expression());
    }
    statement->recursive = reader_.TakeName("recursive");
    REM_RETURN_IF_ERROR(BlockEnd());
    ++loops_;
    const Status body = Body({"else", "endfor"}, statement->body);
    --loops_;
    REM_RETURN_IF_ERROR(body);
    if (reader_.Take().value == "else") {
      REM_RETURN_IF_ERROR(BodyAndEnd("endfor", statement->otherwise));
    }
    return statement;
  }

  Result<JinjaTarget> Target(bool with_attribute) {
    JinjaTarget target;
    const bool parenthesized = reader_.TakeOperator("(");
    REM_ASSIGN_OR_RETURN(std::string first, reader_.ExpectName());
    target.names.push_back(std::move(first));
    if (with_attribute && reader_.TakeOperator(".")) {
      REM_ASSIGN_OR_RETURN(target.attribute, reader_.ExpectName());
      return target;
    }
    while (reader_.TakeOperator(",")) {
      target.unpacks = true;
      if (reader_.Peek().kind != TokenKind::kName || reader_.IsName("in")) break;
      REM_ASSIGN_OR_RETURN(std::string name, reader_.ExpectName());
      target.names.push_back(std::move(name));
    }
    if (parenthesized) REM_RETURN_IF_ERROR(reader_.ExpectOperator(")"));
    return target;
  }

  Result<StatementPtr> Set() {
    StatementPtr statement = Make(Kind::kSet);
    REM_ASSIGN_OR_RETURN(statement->target, Target(/*with_attribute=*/true));
    if (reader_.TakeOperator("=")) {
      REM_ASSIGN_OR_RETURN(statement->expression, expressions_.Tuple());
      return statement;
    }
    statement->kind = Kind::kSetBlock;
    if (reader_.TakeOperator("|")) {
      REM_ASSIGN_OR_RETURN(statement->expression, expressions_.Filters(nullptr));
    }
    REM_RETURN_IF_ERROR(BodyAndEnd("endset", statement->body));
    return statement;
  }

  Status Parameters(std::vector<JinjaParameter>& parameters) {
    REM_RETURN_IF_ERROR(reader_.ExpectOperator("("));
    while (!reader_.IsOperator(")")) {
      JinjaParameter parameter;
      REM_ASSIGN_OR_RETURN(parameter.name, reader_.ExpectName());
      if (reader_.TakeOperator("=")) {
        REM_ASSIGN_OR_RETURN(parameter.fallback, expressions_.Expression());
      }
      parameters.push_back(std::move(parameter));
      if (!reader_.TakeOperator(",")) break;
    }
    return reader_.ExpectOperator(")");
  }

  // A body of its own: break and continue don't reach out of it.
  Status ClosedBody(std::string_view end, JinjaBody& body) {
    const int loops = std::exchange(loops_, 0);
    const Status status = BodyAndEnd(end, body);
    loops_ = loops;
    return status;
  }

  Result<StatementPtr> Macro() {
    StatementPtr statement = Make(Kind::kMacro);
    REM_ASSIGN_OR_RETURN(statement->name, reader_.ExpectName());
    REM_RETURN_IF_ERROR(Parameters(statement->parameters));
    REM_RETURN_IF_ERROR(ClosedBody("endmacro", statement->body));
    return statement;
  }

  Result<StatementPtr> CallBlock() {
    StatementPtr statement = Make(Kind::kCallBlock);
    if (reader_.IsOperator("(")) REM_RETURN_IF_ERROR(Parameters(statement->parameters));
    REM_ASSIGN_OR_RETURN(statement->expression, expressions_.Expression());
    if (statement->expression->kind != JinjaExpression::Kind::kCall) {
      return reader_.Error("a call block needs a call");
    }
    REM_RETURN_IF_ERROR(ClosedBody("endcall", statement->body));
    return statement;
  }

  Result<StatementPtr> FilterBlock() {
    StatementPtr statement = Make(Kind::kFilterBlock);
    REM_ASSIGN_OR_RETURN(statement->expression, expressions_.Filters(nullptr));
    REM_RETURN_IF_ERROR(BodyAndEnd("endfilter", statement->body));
    return statement;
  }

  Result<StatementPtr> With() {
    StatementPtr statement = Make(Kind::kWith);
    while (reader_.Peek().kind != TokenKind::kBlockEnd) {
      REM_ASSIGN_OR_RETURN(JinjaTarget target, Target(/*with_attribute=*/false));
      REM_RETURN_IF_ERROR(reader_.ExpectOperator("="));
      REM_ASSIGN_OR_RETURN(JinjaExpressionPtr value, expressions_.Expression());
      statement->assignments.emplace_back(std::move(target), std::move(value));
      if (!reader_.TakeOperator(",")) break;
    }
    REM_RETURN_IF_ERROR(BodyAndEnd("endwith", statement->body));
    return statement;
  }

  JinjaTokenReader reader_;
  JinjaExpressionParser expressions_;
  int loops_ = 0;
};

}  // namespace

Result<JinjaTemplate> ParseJinja(std::string_view source) {
  REM_ASSIGN_OR_RETURN(std::vector<JinjaToken> tokens, LexJinja(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace remontoir
