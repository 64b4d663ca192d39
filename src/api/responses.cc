// Answers as JSON text, field by field in the order in which the API's documentation lists them.
#include "api/responses.h"

#include <algorithm>

#include "api/json_writer.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

void WriteHead(JsonWriter& json, const ReplyHead& head, std::string_view object) {
  json.BeginObject();
  json.Key("id").String(head.id);
  json.Key("object").String(object);
  json.Key("created").Int(head.created);
  json.Key("model").String(head.model);
}

void WriteUsage(JsonWriter& json, const Usage& usage) {
  json.BeginObject();
  json.Key("prompt_tokens").Int(usage.prompt_tokens);
  json.Key("completion_tokens").Int(usage.completion_tokens);
  json.Key("total_tokens").Int(usage.prompt_tokens + usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject();
  json.Key("cached_tokens").Int(usage.cached_tokens).EndObject();
  json.EndObject();
}

void WriteChunkUsage(JsonWriter& json, const ChunkUsage& usage) {
  if (!usage.present) return;
  json.Key("usage");
  if (usage.usage.has_value()) {
    WriteUsage(json, *usage.usage);
  } else {
    json.Null();
  }
}

void WriteFinish(JsonWriter& json, const ReplyChoice& choice) {
  json.Key("finish_reason").StringOrNull(choice.finish_reason);
  if (!choice.stop_detail.empty()) json.Key("stop_detail").String(choice.stop_detail);
}

void WriteChatToken(JsonWriter& json, std::string_view bytes, float logprob) {
  json.Key("token").String(bytes);
  json.Key("logprob").Float(logprob);
  json.Key("bytes").BeginArray();
  for (const char c : bytes) json.Int(static_cast<unsigned char>(c));
  json.EndArray();
}

void WriteChatLogprobs(JsonWriter& json, const ReplyChoice& choice) {
  json.Key("logprobs");
  if (!choice.has_logprobs) {
    json.Null();
    return;
  }
  json.BeginObject().Key("content").BeginArray();
  for (const ScoredToken& token : choice.tokens) {
    json.BeginObject();
    WriteChatToken(json, token.bytes, token.logprob.value_or(0));
    json.Key("top_logprobs").BeginArray();
    for (const AlternativeToken& other : token.top) {
      json.BeginObject();
      WriteChatToken(json, other.bytes, other.logprob);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

// Half characters are spelled out, so that different tokens keep different texts.
std::string TokenText(std::string_view bytes) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  if (IsValidUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

// {text: logprob, ...} of the alternatives and, when it isn't one of them, the token itself.
void WriteTopMap(JsonWriter& json, const ScoredToken& token) {
  if (!token.logprob.has_value()) {
    json.Null();
    return;
  }
  std::vector<std::string_view> written;
  const auto write = [&](std::string_view bytes, float logprob) {
    if (std::ranges::find(written, bytes) != written.end()) return;
    written.push_back(bytes);
    json.Key(TokenText(bytes)).Float(logprob);
  };
  json.BeginObject();
  for (const AlternativeToken& other : token.top) write(other.bytes, other.logprob);
  write(token.bytes, *token.logprob);
  json.EndObject();
}

void WriteCompletionLogprobs(JsonWriter& json, const ReplyChoice& choice) {
  json.Key("logprobs");
  if (!choice.has_logprobs) {
    json.Null();
    return;
  }
  json.BeginObject();
  json.Key("tokens").BeginArray();
  for (const ScoredToken& token : choice.tokens) json.String(TokenText(token.bytes));
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const ScoredToken& token : choice.tokens) {
    if (token.logprob.has_value()) {
      json.Float(*token.logprob);
    } else {
      json.Null();
    }
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const ScoredToken& token : choice.tokens) WriteTopMap(json, token);
  json.EndArray().Key("text_offset").BeginArray();
  for (const ScoredToken& token : choice.tokens) json.Int(token.text_offset);
  json.EndArray().EndObject();
}

void WriteCompletionChoice(JsonWriter& json, const ReplyChoice& choice) {
  json.BeginObject();
  json.Key("index").Int(choice.index);
  json.Key("text").String(choice.text);
  WriteCompletionLogprobs(json, choice);
  WriteFinish(json, choice);
  json.EndObject();
}

void WriteTimings(JsonWriter& json, const ReplyTimings* timings) {
  if (timings == nullptr) return;
  json.Key("remontoir").BeginObject();
  WriteFields(json, *timings);
  json.EndObject();
}

std::string UsageChunk(const ReplyHead& head, std::string_view object, const Usage& usage,
                       const ReplyTimings* timings) {
  JsonWriter json;
  WriteHead(json, head, object);
  json.Key("choices").BeginArray().EndArray();
  WriteChunkUsage(json, {true, usage});
  WriteTimings(json, timings);
  json.EndObject();
  return json.Take();
}

constexpr std::string_view kChatChunk = "chat.completion.chunk";
constexpr std::string_view kTextCompletion = "text_completion";

void WriteModel(JsonWriter& json, const ModelEntry& model) {
  json.BeginObject();
  json.Key("id").String(model.id);
  json.Key("object").String("model");
  json.Key("created").Int(model.created);
  json.Key("owned_by").String("remontoir");
  json.Key("max_model_len").Int(model.context_tokens);
  json.Key("meta").BeginObject().Key("n_ctx").Int(model.context_tokens).EndObject();
  json.EndObject();
}

void WriteTokens(JsonWriter& json, std::string_view key, std::span<const TokenId> tokens) {
  json.Key(key).BeginArray();
  for (const TokenId token : tokens) json.Int(Index(token));
  json.EndArray();
}

}  // namespace

std::string ChatCompletionJson(const ReplyHead& head, std::span<const ReplyChoice> choices,
                               const Usage& usage, const ReplyTimings* timings) {
  JsonWriter json;
  WriteHead(json, head, "chat.completion");
  json.Key("choices").BeginArray();
  for (const ReplyChoice& choice : choices) {
    json.BeginObject();
    json.Key("index").Int(choice.index);
    json.Key("message").BeginObject();
    json.Key("role").String("assistant");
    json.Key("content").String(choice.text);
    json.Key("refusal").Null().EndObject();
    WriteChatLogprobs(json, choice);
    WriteFinish(json, choice);
    json.EndObject();
  }
  json.EndArray().Key("usage");
  WriteUsage(json, usage);
  WriteTimings(json, timings);
  json.EndObject();
  return json.Take();
}

std::string ChatRoleChunkJson(const ReplyHead& head, int32_t index, const ChunkUsage& usage) {
  JsonWriter json;
  WriteHead(json, head, kChatChunk);
  json.Key("choices").BeginArray().BeginObject();
  json.Key("index").Int(index);
  json.Key("delta").BeginObject();
  json.Key("role").String("assistant");
  json.Key("content").String("").EndObject();
  json.Key("logprobs").Null().Key("finish_reason").Null();
  json.EndObject().EndArray();
  WriteChunkUsage(json, usage);
  json.EndObject();
  return json.Take();
}

std::string ChatChunkJson(const ReplyHead& head, const ReplyChoice& choice, const ChunkUsage& usage,
                          const ReplyTimings* timings) {
  JsonWriter json;
  WriteHead(json, head, kChatChunk);
  json.Key("choices").BeginArray().BeginObject();
  json.Key("index").Int(choice.index);
  json.Key("delta").BeginObject();
  if (!choice.text.empty() || choice.has_logprobs) json.Key("content").String(choice.text);
  json.EndObject();
  WriteChatLogprobs(json, choice);
  WriteFinish(json, choice);
  json.EndObject().EndArray();
  WriteChunkUsage(json, usage);
  WriteTimings(json, timings);
  json.EndObject();
  return json.Take();
}

std::string ChatUsageChunkJson(const ReplyHead& head, const Usage& usage,
                               const ReplyTimings* timings) {
  return UsageChunk(head, kChatChunk, usage, timings);
}

std::string CompletionJson(const ReplyHead& head, std::span<const ReplyChoice> choices,
                           const Usage& usage, const ReplyTimings* timings) {
  JsonWriter json;
  WriteHead(json, head, kTextCompletion);
  json.Key("choices").BeginArray();
  for (const ReplyChoice& choice : choices) WriteCompletionChoice(json, choice);
  json.EndArray().Key("usage");
  WriteUsage(json, usage);
  WriteTimings(json, timings);
  json.EndObject();
  return json.Take();
}

std::string CompletionChunkJson(const ReplyHead& head, const ReplyChoice& choice,
                                const ChunkUsage& usage, const ReplyTimings* timings) {
  JsonWriter json;
  WriteHead(json, head, kTextCompletion);
  json.Key("choices").BeginArray();
  WriteCompletionChoice(json, choice);
  json.EndArray();
  WriteChunkUsage(json, usage);
  WriteTimings(json, timings);
  json.EndObject();
  return json.Take();
}

std::string CompletionUsageChunkJson(const ReplyHead& head, const Usage& usage,
                                     const ReplyTimings* timings) {
  return UsageChunk(head, kTextCompletion, usage, timings);
}

std::string ModelJson(const ModelEntry& model) {
  JsonWriter json;
  WriteModel(json, model);
  return json.Take();
}

std::string ModelListJson(std::span<const ModelEntry> models) {
  JsonWriter json;
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const ModelEntry& model : models) WriteModel(json, model);
  json.EndArray().EndObject();
  return json.Take();
}

std::string TokensJson(std::span<const TokenId> tokens, int64_t context_tokens,
                       const std::vector<std::string_view>* spellings) {
  JsonWriter json;
  json.BeginObject();
  json.Key("count").Int(static_cast<int64_t>(tokens.size()));
  json.Key("max_model_len").Int(context_tokens);
  WriteTokens(json, "tokens", tokens);
  if (spellings != nullptr) {
    json.Key("token_strs").BeginArray();
    for (const std::string_view spelling : *spellings) json.String(spelling);
    json.EndArray();
  }
  json.EndObject();
  return json.Take();
}

std::string PromptJson(std::string_view prompt) {
  JsonWriter json;
  json.BeginObject().Key("prompt").String(prompt).EndObject();
  return json.Take();
}

std::string RenderedChatJson(std::string_view model, std::span<const TokenId> tokens) {
  JsonWriter json;
  json.BeginObject();
  json.Key("model").String(model);
  WriteTokens(json, "token_ids", tokens);
  json.EndObject();
  return json.Take();
}

std::string ModelInfoJson(const ModelFacts& model) {
  JsonWriter json;
  json.BeginObject();
  json.Key("model_path").String(model.path);
  json.Key("tokenizer_path").String(model.path);
  json.Key("served_model_name").String(model.name);
  json.Key("is_generation").Bool(true);
  json.Key("max_model_len").Int(model.context_tokens);
  json.EndObject();
  return json.Take();
}

std::string ServerInfoJson(const ServerFacts& server) {
  JsonWriter json;
  json.BeginObject();
  json.Key("version").String(server.version);
  json.Key("model_path").String(server.model.path);
  json.Key("served_model_name").String(server.model.name);
  json.Key("aliases").BeginArray();
  for (const std::string& alias : server.aliases) json.String(alias);
  json.EndArray();
  json.Key("max_model_len").Int(server.model.context_tokens);
  json.Key("sequences_max").Int(server.sequences_max);
  json.Key("queue_max").Int(server.queue_max);
  json.Key("kv_room_tokens").Int(server.kv_room_tokens);
  json.Key("backend").String(server.backend);
  json.EndObject();
  return json.Take();
}

}  // namespace remontoir
