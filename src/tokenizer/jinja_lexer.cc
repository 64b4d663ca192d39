// The lexer: text until a tag begins, then an expression's tokens until it ends.
#include "tokenizer/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/utf8.h"

namespace remontoir {
namespace {

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Longest first, so that the first that fits is the right one.
constexpr std::array<std::string_view, 25> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};

std::string WithUnixNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
    } else {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<JinjaToken>> Run() {
    while (at_ < source_.size()) REM_RETURN_IF_ERROR(TextAndTag());
    Add(JinjaToken::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  using Kind = JinjaToken::Kind;

  Status Error(const std::string& what) const {
    return InvalidArgument("chat template, line " + std::to_string(line_) + ": " + what);
  }
  std::string_view Rest() const { return source_.substr(at_); }
  void Add(Kind kind, std::string value) { tokens_.push_back({kind, std::move(value), line_}); }
  void Advance(size_t count) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }

  // Text up to the next tag, then the tag.
  Status TextAndTag() {
    const size_t begin = FindTag(at_);
    std::string_view text = source_.substr(at_, begin - at_);
    if (begin == source_.size()) {
      AddText(text);
      Advance(text.size());
      return Status::Ok();
    }
    const char kind = source_[begin + 1];
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    if (sign == '-') {
      while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
    } else if (sign != '+' && kind != '{') {
      text = WithoutIndent(text);
    }
    AddText(text);
    Advance(begin + 2 - at_ + (sign == '-' || sign == '+' ? 1 : 0));
    line_starting_ = false;
    if (kind == '#') return Comment();
    if (kind == '{') return Tag(Kind::kVariableBegin, Kind::kVariableEnd, '}');
    if (const std::optional<size_t> raw = RawBegin()) return Raw(*raw);
    return Tag(Kind::kBlockBegin, Kind::kBlockEnd, '%');
  }

  size_t FindTag(size_t from) const {
    for (size_t i = from; i + 1 < source_.size(); ++i) {
      const char next = source_[i + 1];
      if (source_[i] == '{' && (next == '{' || next == '%' || next == '#')) return i;
    }
    return source_.size();
  }

  // lstrip_blocks: blanks alone between a line's begin and a tag are no text.
  std::string_view WithoutIndent(std::string_view text) const {
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    const std::string_view indent = text.substr(line);
    return std::all_of(indent.begin(), indent.end(), IsBlank) ? text.substr(0, line) : text;
  }

  void AddText(std::string_view text) {
    if (!text.empty()) Add(Kind::kText, std::string(text));
  }

  // What a tag's end takes of the text behind it.
  void SkipAfterEnd(bool minus, bool plus, bool trims_newline) {
    const size_t begin = at_;
    if (minus) {
      while (at_ < source_.size() && IsBlank(source_[at_])) Advance(1);
    } else if (trims_newline && !plus && Rest().starts_with('\n')) {
      Advance(1);
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  Status Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return Error("a comment has no end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Advance(end + 2 - at_);
    SkipAfterEnd(sign == '-', sign == '+', true);
    return Status::Ok();
  }

  // After "{%": the length of " raw %}", if that is what comes.
  std::optional<size_t> RawBegin() const {
    size_t i = at_;
    const auto skip_blanks = [&] {
      while (i < source_.size() && IsBlank(source_[i])) ++i;
    };
    skip_blanks();
    if (!source_.substr(i).starts_with("raw")) return std::nullopt;
    i += 3;
    skip_blanks();
    const bool minus = source_.substr(i).starts_with("-%}");
    if (!minus && !source_.substr(i).starts_with("%}")) return std::nullopt;
    i += minus ? 3 : 2;
    if (minus) skip_blanks();
    return i - at_;
  }

  Status Raw(size_t begin_length) {
    Advance(begin_length);
    for (size_t end = source_.find("{%", at_); end != std::string_view::npos;
         end = source_.find("{%", end + 2)) {
      size_t i = end + 2;
      const char begin_sign = i < source_.size() ? source_[i] : '\0';
      if (begin_sign == '-' || begin_sign == '+') ++i;
      while (i < source_.size() && IsBlank(source_[i])) ++i;
      if (!source_.substr(i).starts_with("endraw")) continue;
      i += 6;
      while (i < source_.size() && IsBlank(source_[i])) ++i;
      const char end_sign = i < source_.size() ? source_[i] : '\0';
      if (end_sign == '-' || end_sign == '+') ++i;
      if (!source_.substr(i).starts_with("%}")) continue;
      std::string_view text = source_.substr(at_, end - at_);
      if (begin_sign == '-') {
        while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
      } else if (begin_sign != '+') {
        text = WithoutIndent(text);
      }
      AddText(text);
      Advance(i + 2 - at_);
      SkipAfterEnd(end_sign == '-', end_sign == '+', true);
      return Status::Ok();
    }
    return Error("a raw block has no end");
  }

  // The tokens of an expression or a statement, up to "}}" or "%}".
  Status Tag(Kind begin, Kind end, char closing) {
    Add(begin, "");
    std::string open;  // brackets that are not closed yet
    while (at_ < source_.size()) {
      if (IsBlank(source_[at_])) {
        Advance(1);
        continue;
      }
      if (open.empty()) {
        const char sign =
            source_[at_] == '-' || (source_[at_] == '+' && closing == '%') ? source_[at_] : '\0';
        const std::string_view tail = source_.substr(at_ + (sign != '\0' ? 1 : 0));
        if (tail.size() >= 2 && tail[0] == closing && tail[1] == '}') {
          Advance(sign != '\0' ? 3 : 2);
          Add(end, "");
          SkipAfterEnd(sign == '-', sign == '+', closing == '%');
          return Status::Ok();
        }
      }
      REM_RETURN_IF_ERROR(One(open));
    }
    return Error("a tag has no end");
  }

  // One token of an expression.
  Status One(std::string& open) {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return String(c);
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) {
      size_t length = 1;
      while (at_ + length < source_.size() && IsNamePart(source_[at_ + length])) ++length;
      Add(Kind::kName, std::string(source_.substr(at_, length)));
      Advance(length);
      return Status::Ok();
    }
    const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                    [&](std::string_view op) { return Rest().starts_with(op); });
    if (found == kOperators.end()) return Error("unexpected character '" + std::string(1, c) + "'");
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != wanted) {
        return Error("unexpected '" + std::string(1, c) + "'");
      }
      open.pop_back();
    }
    Add(Kind::kOperator, std::string(*found));
    Advance(found->size());
    return Status::Ok();
  }

  Status Number() {
    size_t length = 0;
    const auto digits = [&] {
      while (at_ + length < source_.size() &&
             (IsDigit(source_[at_ + length]) || source_[at_ + length] == '_')) {
        ++length;
      }
    };
    const auto digit_at = [&](size_t i) { return i < source_.size() && IsDigit(source_[i]); };
    digits();
    Kind kind = Kind::kInteger;
    if (Rest().substr(length).starts_with('.') && digit_at(at_ + length + 1)) {
      kind = Kind::kFloat;
      ++length;
      digits();
    }
    const std::string_view tail = Rest().substr(length);
    if (tail.starts_with('e') || tail.starts_with('E')) {
      const size_t sign = tail.size() > 1 && (tail[1] == '+' || tail[1] == '-') ? 1 : 0;
      if (digit_at(at_ + length + 1 + sign)) {
        kind = Kind::kFloat;
        length += 1 + sign;
        digits();
      }
    }
    std::string value(Rest().substr(0, length));
    std::erase(value, '_');
    Add(kind, std::move(value));
    Advance(length);
    return Status::Ok();
  }

  Status String(char quote) {
    std::string value;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] != '\\') {
        value.push_back(source_[i++]);
        continue;
      }
      if (i + 1 >= source_.size()) break;
      REM_RETURN_IF_ERROR(Escape(i, value));
    }
    if (i >= source_.size()) return Error("a string has no end");
    Add(Kind::kString, std::move(value));
    Advance(i + 1 - at_);
    return Status::Ok();
  }

  // The escape at source_[i], Python's; moves i behind it.
  Status Escape(size_t& i, std::string& value) const {
    const char c = source_[i + 1];
    i += 2;
    switch (c) {
      case '\n': return Status::Ok();
      case 'n': value.push_back('\n'); return Status::Ok();
      case 't': value.push_back('\t'); return Status::Ok();
      case 'r': value.push_back('\r'); return Status::Ok();
      case 'b': value.push_back('\b'); return Status::Ok();
      case 'f': value.push_back('\f'); return Status::Ok();
      case 'v': value.push_back('\v'); return Status::Ok();
      case 'a': value.push_back('\a'); return Status::Ok();
      case '\\':
      case '\'':
      case '"': value.push_back(c); return Status::Ok();
      case 'x': return CodePoint(i, 2, 16, value);
      case 'u': return CodePoint(i, 4, 16, value);
      case 'U': return CodePoint(i, 8, 16, value);
      default: break;
    }
    if (c >= '0' && c <= '7') {
      size_t digits = 1;
      --i;
      while (digits < 3 && i + digits < source_.size() && source_[i + digits] >= '0' &&
             source_[i + digits] <= '7') {
        ++digits;
      }
      return CodePoint(i, digits, 8, value);
    }
    value.push_back('\\');
    value.push_back(c);
    return Status::Ok();
  }

  Status CodePoint(size_t& i, size_t digits, int base, std::string& value) const {
    char32_t code_point = 0;
    for (size_t k = 0; k < digits; ++k, ++i) {
      const char c = i < source_.size() ? source_[i] : '\0';
      const int digit = IsDigit(c)               ? c - '0'
                        : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                        : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                 : base;
      if (digit >= base) return Error("a string has a broken escape");
      code_point = code_point * base + digit;
      if (code_point > 0x10FFFF) return Error("a string has an escape above U+10FFFF");
    }
    if (code_point >= 0xD800 && code_point < 0xE000) code_point = kReplacementCharacter;
    AppendUtf8(code_point, value);
    return Status::Ok();
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

Result<std::vector<JinjaToken>> LexJinja(std::string_view source) {
  if (!IsValidUtf8(source)) return InvalidArgument("chat template: not UTF-8");
  const std::string text = WithUnixNewlines(source);
  return Lexer(text).Run();
}

}  // namespace remontoir
