// The JSON of answers: completions and their chunks, logprobs, usage, the model list, and what
// routers ask.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/timings.h"
#include "sampling/token_id.h"

namespace remontoir {

// The same in a whole answer and in every chunk of a stream.
struct ReplyHead {
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // Unix seconds
  std::string model;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
};

struct AlternativeToken {
  std::string bytes;
  float logprob = 0;
};

struct ScoredToken {
  std::string bytes;
  std::optional<float> logprob;       // none for the first token of a scored prompt
  std::vector<AlternativeToken> top;  // best first
  int64_t text_offset = 0;            // of its first character in the choice's text
};

// A choice of a whole answer, or what a chunk adds to it.
struct ReplyChoice {
  int32_t index = 0;
  std::string text;
  bool has_logprobs = false;
  std::vector<ScoredToken> tokens;
  std::string finish_reason;  // "stop", "length"; empty: null, more to come
  std::string stop_detail;    // empty: not written
};

// What a chunk says about usage: nothing, null, or numbers.
struct ChunkUsage {
  bool present = false;
  std::optional<Usage> usage;
};

// A null pointer to timings, here and below: none are written. What is last in a stream, and a
// whole answer, may have them as "remontoir".

std::string ChatCompletionJson(const ReplyHead& head, std::span<const ReplyChoice> choices,
                               const Usage& usage, const ReplyTimings* timings = nullptr);
// The chunk that opens a choice: the role and empty content.
std::string ChatRoleChunkJson(const ReplyHead& head, int32_t index, const ChunkUsage& usage);
// Content when there is text or there are logprobs, else an empty delta.
std::string ChatChunkJson(const ReplyHead& head, const ReplyChoice& choice, const ChunkUsage& usage,
                          const ReplyTimings* timings = nullptr);
// The chunk behind the last choice: no choices, the usage.
std::string ChatUsageChunkJson(const ReplyHead& head, const Usage& usage,
                               const ReplyTimings* timings = nullptr);

std::string CompletionJson(const ReplyHead& head, std::span<const ReplyChoice> choices,
                           const Usage& usage, const ReplyTimings* timings = nullptr);
std::string CompletionChunkJson(const ReplyHead& head, const ReplyChoice& choice,
                                const ChunkUsage& usage, const ReplyTimings* timings = nullptr);
std::string CompletionUsageChunkJson(const ReplyHead& head, const Usage& usage,
                                     const ReplyTimings* timings = nullptr);

// What ends every stream.
inline constexpr std::string_view kStreamEnd = "[DONE]";

struct ModelEntry {
  std::string id;
  int64_t created = 0;
  int64_t context_tokens = 0;
};

std::string ModelJson(const ModelEntry& model);
std::string ModelListJson(std::span<const ModelEntry> models);

// `spellings` is as long as `tokens`; null: not written.
std::string TokensJson(std::span<const TokenId> tokens, int64_t context_tokens,
                       const std::vector<std::string_view>* spellings);
std::string PromptJson(std::string_view prompt);
// The tokens that the model sees of a chat.
std::string RenderedChatJson(std::string_view model, std::span<const TokenId> tokens);

struct ModelFacts {
  std::string path;  // of its file, which holds the tokenizer too
  std::string name;  // in replies
  int64_t context_tokens = 0;
};

struct ServerFacts {
  std::string version;
  ModelFacts model;
  std::vector<std::string> aliases;
  int64_t sequences_max = 0;
  int64_t queue_max = 0;
  int64_t kv_room_tokens = 0;
  std::string backend;
};

std::string ModelInfoJson(const ModelFacts& model);
std::string ServerInfoJson(const ServerFacts& server);

}  // namespace remontoir
