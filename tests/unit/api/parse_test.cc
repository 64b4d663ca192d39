// Request bodies: what each field becomes, and which field an error names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/chat_request.h"
#include "api/completion_request.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

std::string Chat(const std::string& fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" +
         (fields.empty() ? "" : "," + fields) + "}";
}

std::string Completion(const std::string& fields) {
  return R"({"model":"m","prompt":"hi")" + (fields.empty() ? "" : "," + fields) + "}";
}

ChatRequest ParsedChat(const std::string& body) {
  ChatRequest request;
  const auto error = ParseChatRequest(body, request);
  EXPECT_FALSE(error.has_value()) << body << ": " << error->message;
  return request;
}

CompletionRequest ParsedCompletion(const std::string& body) {
  CompletionRequest request;
  const auto error = ParseCompletionRequest(body, request);
  EXPECT_FALSE(error.has_value()) << body << ": " << error->message;
  return request;
}

struct Wrong {
  std::string body;
  const char* param;
  const char* message_part;
};

TEST(ChatRequest, ErrorsNameTheField) {
  const auto message = [](const std::string& text) { return R"({"messages":[)" + text + "]}"; };
  const std::string deep(kJsonDepthMax + 1, '[');
  const Wrong cases[] = {
      {"", "", "not valid JSON"},
      {"{", "", "not valid JSON"},
      {"[]", "", "must be a JSON object, got an array"},
      {R"({"messages":)" + deep, "", "not valid JSON"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "", "not valid JSON"},
      {"{}", "messages", "is missing"},
      {R"({"messages":null})", "messages", "is missing"},
      {R"({"messages":"hi"})", "messages", "must be an array, got a string"},
      {R"({"messages":[]})", "messages", "must not be empty"},
      {message("1"), "messages[0]", "must be an object, got an integer"},
      {message(R"({"content":"x"})"), "messages[0].role", "is missing"},
      {message(R"({"role":"robot","content":"x"})"), "messages[0].role", "\"robot\""},
      {message(R"({"role":1,"content":"x"})"), "messages[0].role", "must be a string"},
      {message(R"({"role":"user"})"), "messages[0].content", "is missing"},
      {message(R"({"role":"user","content":null})"), "messages[0].content", "is missing"},
      {message(R"({"role":"assistant","content":null})"), "messages[0].content", "is missing"},
      {message(R"({"role":"user","content":5})"), "messages[0].content",
       "must be a string or an array of text parts, got an integer"},
      {message(R"({"role":"user","content":"a"},{"role":"user","content":["b"]})"),
       "messages[1].content[0]", "must be an object, got a string"},
      {message(R"({"role":"user","content":[{"type":"text","text":"a"},)"
               R"({"type":"image_url","image_url":{"url":"x"}}]})"),
       "messages[0].content[1].type", "got \"image_url\""},
      {message(R"({"role":"user","content":[{"type":"text"}]})"), "messages[0].content[0].text",
       "is missing"},
      {message(R"({"role":"user","content":[{"type":"text","text":3}]})"),
       "messages[0].content[0].text", "must be a string"},
      {message(R"({"role":"assistant","content":null,"tool_calls":"x"})"), "messages[0].tool_calls",
       "must be an array"},
      {Chat(R"("model":7)"), "model", "must be a string, got an integer"},
      {Chat(R"("temperature":2.5)"), "temperature", "must be between 0 and 2, got 2.5"},
      {Chat(R"("temperature":-1)"), "temperature", "must be between 0 and 2, got -1"},
      {Chat(R"("temperature":"hot")"), "temperature", "must be a number, got a string"},
      {Chat(R"("temperature":1e999)"), "temperature", "got inf"},
      {Chat(R"("top_p":1.1)"), "top_p", "between 0 and 1"},
      {Chat(R"("min_p":-0.1)"), "min_p", "between 0 and 1"},
      {Chat(R"("frequency_penalty":3)"), "frequency_penalty", "between -2 and 2"},
      {Chat(R"("presence_penalty":-3)"), "presence_penalty", "between -2 and 2"},
      {Chat(R"("repetition_penalty":0)"), "repetition_penalty", "greater than 0"},
      {Chat(R"("top_k":-2)"), "top_k", "between -1 and"},
      {Chat(R"("top_k":1.5)"), "top_k", "must be an integer, got 1.5"},
      {Chat(R"("n":0)"), "n", "between 1 and 128, got 0"},
      {Chat(R"("n":129)"), "n", "between 1 and 128, got 129"},
      {Chat(R"("n":99999999999999999999)"), "n", "must be an integer"},
      {Chat(R"("n":18446744073709551615)"), "n", "got 18446744073709551615"},
      {Chat(R"("seed":1.5)"), "seed", "64-bit integer"},
      {Chat(R"("seed":"x")"), "seed", "64-bit integer"},
      {Chat(R"("stop":5)"), "stop", "a string or an array of strings, got an integer"},
      {Chat(R"("stop":["a","b","c","d","e"])"), "stop", "at most 4 strings, got 5"},
      {Chat(R"("stop":["a",null])"), "stop[1]", "must be a string, got null"},
      {Chat(R"("stop":["a",""])"), "stop[1]", "must not be empty"},
      {Chat(R"("stop":"")"), "stop", "must not be empty"},
      {Chat(R"("max_tokens":0)"), "max_tokens", "between 1 and"},
      {Chat(R"("max_completion_tokens":"9")"), "max_completion_tokens", "must be an integer"},
      {Chat(R"("stream":"yes")"), "stream", "must be a boolean, got a string"},
      {Chat(R"("stream_options":[])"), "stream_options", "must be an object"},
      {Chat(R"("stream_options":{"include_usage":1})"), "stream_options.include_usage",
       "must be a boolean"},
      {Chat(R"("logprobs":5)"), "logprobs", "must be a boolean, got an integer"},
      {Chat(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", "between 0 and 20"},
      {Chat(R"("top_logprobs":2)"), "top_logprobs", "needs logprobs"},
      {Chat(R"("logit_bias":[])"), "logit_bias", "must be an object"},
      {Chat(R"("logit_bias":{"a":1})"), "logit_bias", "token ids as keys"},
      {Chat(R"("logit_bias":{"-1":1})"), "logit_bias", "token ids as keys"},
      {Chat(R"("logit_bias":{"99999999999":1})"), "logit_bias", "token ids as keys"},
      {Chat(R"("logit_bias":{"5":101})"), "logit_bias.5", "between -100 and 100"},
      {Chat(R"("logit_bias":{"5":1,"05":2})"), "logit_bias", "names a token twice"},
      {Chat(R"("ignore_eos":1)"), "ignore_eos", "must be a boolean"},
      {Chat(R"("max_context_length":0)"), "max_context_length", "between 1 and"},
      {Chat(R"("max_context_length":-1)"), "max_context_length", "between 1 and"},
      {Chat(R"("max_context_length":1e10)"), "max_context_length", "between 1 and"},
      {Chat(R"("max_context_length":1.5)"), "max_context_length", "must be an integer"},
      {Chat(R"("max_context_length":"8k")"), "max_context_length", "must be an integer"},
      {Chat(R"("priority":101)"), "priority", "between -100 and 100, got 101"},
      {Chat(R"("priority":-101)"), "priority", "between -100 and 100"},
      {Chat(R"("priority":0.5)"), "priority", "must be an integer"},
      {Chat(R"("priority":"high")"), "priority", "must be an integer, got a string"},
      {Chat(R"("cache_salt":7)"), "cache_salt", "must be a string, got an integer"},
      {Chat(R"("cache_salt":")" + std::string(kCacheSaltBytesMax + 1, 's') + "\""), "cache_salt",
       "must have at most 256 bytes, got 257"},
      {Chat(R"("tools":{})"), "tools", "must be an array"},
      {Chat(R"("tool_choice":"required")"), "tool_choice", "\"auto\" or \"none\""},
      {Chat(R"("tool_choice":{"type":"function"})"), "tool_choice", "\"auto\" or \"none\""},
      {Chat(R"("response_format":{"type":"json_object"})"), "response_format.type",
       "got \"json_object\""},
      {Chat(R"("response_format":"text")"), "response_format", "must be an object"},
  };
  for (const Wrong& wrong : cases) {
    ChatRequest request;
    const auto error = ParseChatRequest(wrong.body, request);
    ASSERT_TRUE(error.has_value()) << wrong.body;
    EXPECT_EQ(error->http_status, 400) << wrong.body;
    EXPECT_EQ(error->type, "invalid_request_error") << wrong.body;
    EXPECT_EQ(error->param, wrong.param) << wrong.body;
    EXPECT_THAT(error->message, HasSubstr(wrong.message_part)) << wrong.body;
    EXPECT_THAT(error->message, HasSubstr(wrong.param)) << wrong.body;
  }
}

TEST(CompletionRequest, ErrorsNameTheField) {
  const Wrong cases[] = {
      {"{}", "prompt", "is missing"},
      {R"({"prompt":{}})", "prompt", "got an object"},
      {R"({"prompt":[]})", "prompt", "must not be empty"},
      {R"({"prompt":[[]]})", "prompt[0]", "must not be empty"},
      {R"({"prompt":["a",1]})", "prompt[1]", "must be a string or an array of token ids"},
      {R"({"prompt":[1,"a"]})", "prompt[1]", "must be a token id"},
      {R"({"prompt":[1,-1]})", "prompt[1]", "must be a token id"},
      {R"({"prompt":[[1],[2,3e9]]})", "prompt[1][1]", "must be a token id"},
      {R"({"prompt":["a","b"],"n":65})", "n", "at most 128"},
      {Completion(R"("max_tokens":0)"), "max_tokens", "without echo"},
      {Completion(R"("max_tokens":-1)"), "max_tokens", "between 0 and"},
      {Completion(R"("logprobs":6)"), "logprobs", "between 0 and 5"},
      {Completion(R"("logprobs":true)"), "logprobs", "must be an integer, got a boolean"},
      {Completion(R"("best_of":2)"), "best_of", "must equal n"},
      {Completion(R"("suffix":"end")"), "suffix", "infilling"},
      {Completion(R"("echo":"yes")"), "echo", "must be a boolean"},
      {Completion(R"("max_context_length":0)"), "max_context_length", "between 1 and"},
      {Completion(R"("priority":1e3)"), "priority", "between -100 and 100"},
      {Completion(R"("cache_salt":[])"), "cache_salt", "must be a string, got an array"},
  };
  for (const Wrong& wrong : cases) {
    CompletionRequest request;
    const auto error = ParseCompletionRequest(wrong.body, request);
    ASSERT_TRUE(error.has_value()) << wrong.body;
    EXPECT_EQ(error->http_status, 400) << wrong.body;
    EXPECT_EQ(error->param, wrong.param) << wrong.body;
    EXPECT_THAT(error->message, HasSubstr(wrong.message_part)) << wrong.body;
  }
}

TEST(ChatRequest, HasTheApisDefaults) {
  const ChatRequest request = ParsedChat(Chat(""));
  const GenerationOptions& options = request.options;
  EXPECT_EQ(options.model, "m");
  EXPECT_FALSE(options.max_tokens.has_value());
  EXPECT_EQ(options.sampling.temperature, 1);
  EXPECT_EQ(options.sampling.top_p, 1);
  EXPECT_EQ(options.sampling.top_k, 0);
  EXPECT_EQ(options.n, 1);
  EXPECT_TRUE(options.skip_special_tokens);
  EXPECT_FALSE(options.has_seed || options.stream || options.ignore_eos || options.want_logprobs);
  EXPECT_EQ(options.max_context_length, 0);
  EXPECT_EQ(options.cache_salt, "");
  EXPECT_FALSE(options.priority.has_value());
  EXPECT_TRUE(request.add_generation_prompt);
}

TEST(ChatRequest, TakesEveryField) {
  const ChatRequest request = ParsedChat(Chat(
      R"("temperature":0,"top_p":0.5,"min_p":0.25,"top_k":40,"frequency_penalty":1,)"
      R"("presence_penalty":-1,"repetition_penalty":1.5,"n":2,"stop":["a","b"],"seed":-1,)"
      R"("max_tokens":5,"max_completion_tokens":7,"stream":true,"user":"u","logprobs":true,)"
      R"("stream_options":{"include_usage":true,"continuous_usage_stats":true},"top_logprobs":3,)"
      R"("logit_bias":{"7":-100,"5":1.5},"ignore_eos":true,"skip_special_tokens":false,)"
      R"("tools":[{"type":"function"}],"tool_choice":"auto","response_format":{"type":"text"},)"
      R"("chat_template_kwargs":{"thinking":false},"add_generation_prompt":false,)"
      R"("max_context_length":4096,"cache_salt":"team 7","prompt_cache_key":{"any":"thing"},)"
      R"("service_tier":"flex","priority":-100,"something_unknown":{"a":[1,2]})"));
  const GenerationOptions& options = request.options;
  EXPECT_EQ(options.sampling.temperature, 0);
  EXPECT_EQ(options.sampling.top_p, 0.5f);
  EXPECT_EQ(options.sampling.min_p, 0.25f);
  EXPECT_EQ(options.sampling.top_k, 40);
  EXPECT_EQ(options.sampling.frequency_penalty, 1);
  EXPECT_EQ(options.sampling.presence_penalty, -1);
  EXPECT_EQ(options.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(options.n, 2);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(options.has_seed);
  EXPECT_EQ(options.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(options.max_tokens, 7);
  EXPECT_TRUE(options.stream && options.include_usage && options.continuous_usage);
  EXPECT_TRUE(options.want_logprobs);
  EXPECT_EQ(options.top_logprobs, 3);
  ASSERT_EQ(options.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(options.sampling.logit_bias[0].token, TokenId{5});
  EXPECT_EQ(options.sampling.logit_bias[0].bias, 1.5f);
  EXPECT_EQ(options.sampling.logit_bias[1].token, TokenId{7});
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_FALSE(options.skip_special_tokens);
  EXPECT_EQ(options.user, "u");
  EXPECT_EQ(options.max_context_length, 4096);
  EXPECT_EQ(options.cache_salt, "team 7");
  EXPECT_EQ(options.priority, -100);
  EXPECT_EQ(request.tools_json, R"([{"type":"function"}])");
  EXPECT_EQ(request.chat_template_kwargs_json, R"({"thinking":false})");
  EXPECT_FALSE(request.add_generation_prompt);
}

TEST(ChatRequest, TakesNullForNotSent) {
  const ChatRequest request = ParsedChat(Chat(
      R"("stop":null,"max_tokens":null,"max_completion_tokens":null,"temperature":null,"n":null,)"
      R"("seed":null,"stream":null,"stream_options":null,"logprobs":null,"top_logprobs":null,)"
      R"("logit_bias":null,"max_context_length":null,"cache_salt":null,"tools":null,"tool_choice":null,"response_format":null,"user":null)"));
  EXPECT_FALSE(request.options.max_tokens.has_value());
  EXPECT_EQ(request.options.sampling.temperature, 1);
  ParsedCompletion(Completion(R"("suffix":null,"best_of":null,"echo":null,"logprobs":null)"));
}

TEST(ChatRequest, ReadsMessagesOfEveryKind) {
  const ChatRequest request = ParsedChat(
      R"({"messages":[{"role":"system","content":"s"},{"role":"developer","content":""},)"
      R"({"role":"user","name":"bob","content":[{"type":"text","text":"a"},)"
      R"({"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1"}],"extra":1},)"
      R"({"role":"tool","tool_call_id":"1","content":"r"}]})");
  ASSERT_EQ(request.messages.size(), 5u);
  EXPECT_EQ(request.messages[1].role, "developer");
  EXPECT_TRUE(request.messages[1].has_content);
  EXPECT_EQ(request.messages[2].content, "a\nb");
  EXPECT_EQ(request.messages[2].name, "bob");
  EXPECT_FALSE(request.messages[3].has_content);
  EXPECT_EQ(request.messages[3].tool_calls_json, R"([{"id":"1"}])");
  EXPECT_EQ(request.messages[4].tool_call_id, "1");
  EXPECT_EQ(request.messages_json,
            R"([{"role":"system","content":"s"},{"role":"developer","content":""},)"
            R"({"role":"user","name":"bob","content":"a\nb"},)"
            R"({"role":"assistant","content":null,"tool_calls":[{"id":"1"}],"extra":1},)"
            R"({"role":"tool","tool_call_id":"1","content":"r"}])");
  EXPECT_EQ(request.options.model, "");
}

TEST(ChatRequest, ToolChoiceNoneHidesTheTools) {
  EXPECT_EQ(ParsedChat(Chat(R"("tools":[{"a":1}],"tool_choice":"none")")).tools_json, "");
  EXPECT_EQ(ParsedChat(Chat(R"("tools":[])")).tools_json, "");
}

TEST(GenerationOptions, TakesNumbersAsClientsWriteThem) {
  EXPECT_EQ(ParsedChat(Chat(R"("max_tokens":16.0)")).options.max_tokens, 16);
  EXPECT_EQ(ParsedChat(Chat(R"("top_k":-1)")).options.sampling.top_k, 0);
  EXPECT_EQ(ParsedChat(Chat(R"("seed":18446744073709551615)")).options.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(ParsedChat(Chat(R"("stop":"one")")).options.stop, std::vector<std::string>{"one"});
  EXPECT_TRUE(ParsedChat(Chat(R"("stop":[])")).options.stop.empty());
}

TEST(CompletionRequest, ReadsPromptsOfEveryKind) {
  const auto text = ParsedCompletion(R"({"prompt":"a"})");
  ASSERT_EQ(text.prompts.size(), 1u);
  EXPECT_EQ(text.prompts[0].text, "a");
  EXPECT_FALSE(text.prompts[0].is_tokens);

  const auto texts = ParsedCompletion(R"({"prompt":["a",""]})");
  ASSERT_EQ(texts.prompts.size(), 2u);
  EXPECT_EQ(texts.prompts[1].text, "");

  const auto ids = ParsedCompletion(R"({"prompt":[1,2]})");
  ASSERT_EQ(ids.prompts.size(), 1u);
  EXPECT_TRUE(ids.prompts[0].is_tokens);
  EXPECT_EQ(ids.prompts[0].tokens, (std::vector<TokenId>{TokenId{1}, TokenId{2}}));

  const auto lists = ParsedCompletion(R"({"prompt":[[1],[2,3]]})");
  ASSERT_EQ(lists.prompts.size(), 2u);
  EXPECT_EQ(lists.prompts[1].tokens, (std::vector<TokenId>{TokenId{2}, TokenId{3}}));
}

TEST(CompletionRequest, HasTheApisDefaultsAndScores) {
  const auto plain = ParsedCompletion(Completion(""));
  EXPECT_EQ(plain.options.max_tokens, kCompletionMaxTokensDefault);
  EXPECT_FALSE(plain.options.want_logprobs);
  const auto score = ParsedCompletion(Completion(R"("max_tokens":0,"echo":true,"logprobs":0)"));
  EXPECT_EQ(score.options.max_tokens, 0);
  EXPECT_TRUE(score.echo);
  EXPECT_TRUE(score.options.want_logprobs);
  EXPECT_EQ(score.options.top_logprobs, 0);
  ParsedCompletion(Completion(R"("n":3,"best_of":3,"suffix":"")"));
}

}  // namespace
}  // namespace remontoir
