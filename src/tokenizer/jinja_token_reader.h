// Reading a template's tokens one by one: what both halves of the parser share.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja_lexer.h"

namespace remontoir {

class JinjaTokenReader {
 public:
  using Kind = JinjaToken::Kind;

  // Expressions and blocks nested deeper than this are refused.
  static constexpr int kDepthMax = 100;
  // Operators, accesses or filters in one chain: the tree of a chain is as deep as it is long.
  static constexpr int kChainMax = 200;

  explicit JinjaTokenReader(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

  const JinjaToken& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  JinjaToken Take() {
    const JinjaToken& token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool IsOperator(std::string_view spelling) const { return Is(Kind::kOperator, spelling); }
  bool IsName(std::string_view name) const { return Is(Kind::kName, name); }
  bool TakeOperator(std::string_view spelling) { return TakeIf(IsOperator(spelling)); }
  bool TakeName(std::string_view name) { return TakeIf(IsName(name)); }

  Status ExpectOperator(std::string_view spelling) {
    if (TakeOperator(spelling)) return Status::Ok();
    return Expected("'" + std::string(spelling) + "'");
  }
  Status Expect(Kind kind, std::string_view what) {
    if (TakeIf(Peek().kind == kind)) return Status::Ok();
    return Expected(what);
  }
  Result<std::string> ExpectName() {
    if (Peek().kind != Kind::kName) return Expected("a name");
    return Take().value;
  }

  Status Error(const std::string& what) const {
    return InvalidArgument("chat template, line " + std::to_string(Peek().line) + ": " + what);
  }
  Status Expected(std::string_view what) const {
    const JinjaToken& token = Peek();
    const std::string found = token.kind == Kind::kEnd        ? "the template's end"
                              : token.kind == Kind::kBlockEnd ? "'%}'"
                              : token.kind == Kind::kVariableEnd
                                  ? "'}}'"
                                  : "'" + token.value.substr(0, 40) + "'";
    return Error("expected " + std::string(what) + ", found " + found);
  }

  // Counts nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(JinjaTokenReader& reader) : reader_(reader) { ++reader_.depth_; }
    ~Nesting() { --reader_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Status Check() const {
      return reader_.depth_ <= kDepthMax ? Status::Ok() : reader_.Error("nested too deeply");
    }

   private:
    JinjaTokenReader& reader_;
  };

 private:
  bool Is(Kind kind, std::string_view value) const {
    return Peek().kind == kind && Peek().value == value;
  }
  bool TakeIf(bool condition) {
    if (condition) Take();
    return condition;
  }

  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace remontoir
