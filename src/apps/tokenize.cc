// JSON lines in, JSON lines out; Boost.JSON reads and writes them.
#include "apps/tokenize.h"

#include <boost/json.hpp>
#include <cstdlib>
#include <vector>

#include "apps/pull.h"
#include "base/clock.h"
#include "formats/model_file.h"

namespace remontoir {
namespace {

namespace json = boost::json;

Result<std::vector<TokenId>> IdsOf(const Tokenizer& tokenizer, const json::value& ids) {
  if (!ids.is_array()) return InvalidArgument("\"ids\" must be an array of token ids");
  std::vector<TokenId> tokens;
  for (const json::value& id : ids.get_array()) {
    const int64_t number = id.is_int64() ? id.get_int64() : -1;
    const bool valid = number >= 0 && number < tokenizer.vocabulary_size();
    if (!valid) {
      return InvalidArgument("\"ids\" holds " + json::serialize(id) + ", expected 0 ... " +
                             std::to_string(tokenizer.vocabulary_size() - 1));
    }
    tokens.push_back(TokenId(static_cast<int32_t>(number)));
  }
  return tokens;
}

std::string IdsText(const std::vector<TokenId>& tokens) {
  std::string text = "[";
  for (const TokenId token : tokens) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(Index(token));
  }
  return text + "]";
}

// Bytes that aren't UTF-8 are the tokenizer's business: it replaces them.
Result<json::value> ParseLine(std::string_view line) {
  json::parse_options options;
  options.allow_invalid_utf8 = true;
  json::error_code error;
  json::value value = json::parse(line, error, {}, options);
  if (error) return InvalidArgument("not JSON: " + error.message());
  return value;
}

}  // namespace

Result<std::string> TokenizeLine(const Tokenizer& tokenizer, const TokenizeOptions& options,
                                 std::string_view line) {
  REM_ASSIGN_OR_RETURN(const json::value value, ParseLine(line));
  const json::object* object = value.if_object();
  const json::value* text = object == nullptr ? nullptr : object->if_contains("text");
  const json::value* ids = object == nullptr ? nullptr : object->if_contains("ids");
  if (ids != nullptr) {
    REM_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, IdsOf(tokenizer, *ids));
    return json::serialize(json::string(tokenizer.Decode(tokens, false)));
  }
  if (options.decode) return InvalidArgument("expected {\"ids\": [...]}");
  if (text == nullptr || !text->is_string()) {
    return InvalidArgument("expected {\"text\": \"...\"} or {\"ids\": [...]}");
  }
  const json::string& string = text->get_string();
  return IdsText(tokenizer.Encode({string.data(), string.size()}, options.parse_special
                                                                      ? SpecialTokens::kParse
                                                                      : SpecialTokens::kAsText));
}

Status Tokenize(const TokenizeOptions& options, std::FILE* in, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const std::string path, LocateModel(options.model, clock));
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromModelFile(file));
  char* line = nullptr;
  size_t capacity = 0;
  Status status;
  for (int64_t number = 1; status.ok(); ++number) {
    const ssize_t size = getline(&line, &capacity, in);
    if (size < 0) break;
    const std::string_view content(line, static_cast<size_t>(size));
    if (content.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
    const Result<std::string> answer = TokenizeLine(tokenizer, options, content);
    status =
        answer.ok() ? Status::Ok() : answer.status().WithContext("line " + std::to_string(number));
    if (answer.ok()) std::fprintf(out, "%s\n", answer->c_str());
  }
  std::free(line);
  return status;
}

}  // namespace remontoir
