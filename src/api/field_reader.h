// Reads the fields of a JSON object with their limits and keeps the first error. For this folder's
// .cc files: Boost.JSON's header comes with it.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error_body.h"
#include "api/generation_options.h"
#include "sampling/token_id.h"

namespace remontoir {

struct ChatRequest;

// "a string", "an integer", ...
std::string_view KindName(const boost::json::value& value);

// Parses a body that must be one JSON object, at most kJsonDepthMax deep.
std::optional<ErrorBody> ParseObject(std::string_view body, boost::json::value& value);

class FieldReader {
 public:
  FieldReader(const boost::json::object& object, std::string path, std::optional<ErrorBody>& error)
      : object_(object), path_(std::move(path)), error_(error) {}

  // Null when the field is absent or null.
  const boost::json::value* Find(std::string_view name) const;

  // Each leaves `out` alone when the field is absent or null.
  void Read(std::string_view name, bool& out);
  void Read(std::string_view name, std::string& out);
  void ReadFloat(std::string_view name, double min, double max, float& out);
  void ReadInt(std::string_view name, int64_t min, int64_t max, int32_t& out);
  // The field as JSON text when it is an object, or an array with `array`.
  void ReadJson(std::string_view name, bool array, std::string& out);

  // Keeps the first error only; the path of this object goes before the field's name.
  void Fail(std::string_view name, std::string_view what);
  void FailUnsupported(std::string_view name, std::string_view what);
  void FailKind(std::string_view name, std::string_view wanted, const boost::json::value& got);

  bool failed() const { return error_.has_value(); }
  std::optional<ErrorBody>& error() { return error_; }
  std::string PathOf(std::string_view name) const;
  const boost::json::object& object() const { return object_; }

 private:
  const boost::json::object& object_;
  const std::string path_;  // "" for the body itself
  std::optional<ErrorBody>& error_;
};

// An integer, also one that is written like 3.0; nullopt for anything else or beyond int64.
std::optional<int64_t> AsInteger(const boost::json::value& value);

// The fields that chat and completions share, but for logprobs and max_tokens.
void ReadGenerationOptions(FieldReader& fields, GenerationOptions& options);

// All fields of a chat request.
void ReadChatRequest(FieldReader& fields, ChatRequest& request);

// The ids in the array `name`; none may be negative.
void ReadTokens(FieldReader& fields, std::string_view name, const boost::json::array& ids,
                std::vector<TokenId>& tokens);

// max_completion_tokens, else max_tokens.
void ReadMaxTokens(FieldReader& fields, int64_t min, GenerationOptions& options);

}  // namespace remontoir
