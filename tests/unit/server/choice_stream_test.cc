// Events to text and logprobs, token by token.
#include "server/choice_stream.h"

#include <gtest/gtest.h>

#include "tests/unit/server/tiny_tokenizer.h"

namespace remontoir {
namespace {

TokenEvent Event(TokenId token, FinishReason finish = FinishReason::kNone) {
  TokenEvent event;
  event.token = token;
  event.has_logprob = true;
  event.logprob = -static_cast<float>(Index(token));
  event.finish = finish;
  return event;
}

TokenEvent PromptEvent(TokenId token, bool first = false) {
  TokenEvent event = Event(token);
  event.is_prompt = true;
  event.has_logprob = !first;
  return event;
}

TokenEvent LastEvent(FinishReason finish, StopDetail detail = StopDetail::kNone) {
  TokenEvent event;
  event.finish = finish;
  event.detail = detail;
  return event;
}

std::string Tokens(const ReplyChoice& choice) {
  std::string joined;
  for (const ScoredToken& token : choice.tokens) joined += token.bytes + "|";
  return joined;
}

class ChoiceStreamTest : public ::testing::Test {
 protected:
  void PushText(ChoiceStream& stream, std::string_view text) {
    for (const char c : text) stream.Push(Event(TinyToken(c)));
  }
  const Tokenizer tokenizer_ = MakeTinyTokenizer();
};

TEST_F(ChoiceStreamTest, GivesEachTokensTextAtOnce) {
  ChoiceStream stream(tokenizer_, {});
  stream.Push(Event(TinyToken('a')));
  EXPECT_EQ(stream.Take().text, "a");
  stream.Push(Event(TinyToken('b')));
  EXPECT_EQ(stream.Take().text, "b");
  EXPECT_FALSE(stream.finished());
  stream.Push(Event(kTinyEnd, FinishReason::kStop));
  EXPECT_TRUE(stream.finished());
  const ReplyChoice last = stream.Take();
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.finish_reason, "stop");
  EXPECT_EQ(stream.completion_tokens(), 3);
}

TEST_F(ChoiceStreamTest, NeverGivesHalfACharacter) {
  ChoiceOptions options;
  options.want_logprobs = true;
  ChoiceStream stream(tokenizer_, options);
  stream.Push(Event(TinyToken('\xe2')));
  EXPECT_EQ(stream.Take().text, "");
  stream.Push(Event(TinyToken('\x82')));
  stream.Push(Event(TinyToken('\xac')));
  EXPECT_EQ(stream.Take().text, "\xe2\x82\xac");
  stream.Push(Event(TinyToken('\xe2')));
  stream.Push(LastEvent(FinishReason::kLength));
  const ReplyChoice last = stream.Take();
  EXPECT_EQ(last.text, "\xef\xbf\xbd");
  EXPECT_EQ(last.finish_reason, "length");
}

TEST_F(ChoiceStreamTest, SpellsControlTokensWhenAsked) {
  for (const bool skip : {true, false}) {
    ChoiceOptions options;
    options.skip_special_tokens = skip;
    options.want_logprobs = true;
    ChoiceStream stream(tokenizer_, options);
    stream.Push(Event(kTinyStart));
    PushText(stream, "a");
    stream.Push(Event(kTinyEnd, FinishReason::kStop));
    const ReplyChoice choice = stream.Take();
    EXPECT_EQ(choice.text, skip ? "a" : "<|start|>a<|end|>");
    EXPECT_EQ(Tokens(choice), skip ? "<|start|>|a|" : "<|start|>|a|<|end|>|");
  }
}

TEST_F(ChoiceStreamTest, EndsAtAStopString) {
  ChoiceOptions options;
  options.stop = {"END"};
  options.want_logprobs = true;
  ChoiceStream stream(tokenizer_, options);
  PushText(stream, "abE");
  const ReplyChoice first = stream.Take();
  EXPECT_EQ(first.text, "ab");
  EXPECT_EQ(Tokens(first), "a|b|");
  EXPECT_FALSE(stream.finished());
  PushText(stream, "ND");
  EXPECT_TRUE(stream.finished());
  const ReplyChoice last = stream.Take();
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(Tokens(last), "");
  EXPECT_EQ(last.finish_reason, "stop");
  PushText(stream, "more");
  EXPECT_EQ(stream.Take().text, "");
  EXPECT_EQ(stream.completion_tokens(), 5);
}

TEST_F(ChoiceStreamTest, GivesBackWhatLookedLikeAStopString) {
  ChoiceOptions options;
  options.stop = {"END"};
  options.want_logprobs = true;
  ChoiceStream stream(tokenizer_, options);
  PushText(stream, "aEN");
  EXPECT_EQ(stream.Take().text, "a");
  stream.Push(Event(TinyToken('x'), FinishReason::kLength));
  const ReplyChoice last = stream.Take();
  EXPECT_EQ(last.text, "ENx");
  EXPECT_EQ(Tokens(last), "E|N|x|");
}

TEST_F(ChoiceStreamTest, EchoesAScoredPromptTokenByToken) {
  ChoiceOptions options;
  options.echo = true;
  options.want_logprobs = true;
  options.hide_first = true;
  options.stop = {"b"};  // means nothing in a prompt
  ChoiceStream stream(tokenizer_, options);
  stream.Push(PromptEvent(kTinyStart, /*first=*/true));
  for (const char c : std::string("b\xc3\xa9")) stream.Push(PromptEvent(TinyToken(c)));
  stream.Push(PromptEvent(kTinyStart));
  stream.Push(Event(TinyToken('z'), FinishReason::kLength));
  const ReplyChoice choice = stream.Take();
  EXPECT_EQ(choice.text, "b\xc3\xa9<|start|>z");
  ASSERT_EQ(choice.tokens.size(), 6u);
  EXPECT_EQ(choice.tokens[0].bytes, "<|start|>");
  EXPECT_FALSE(choice.tokens[0].logprob.has_value());
  EXPECT_EQ(choice.tokens[1].logprob, -static_cast<float>('b'));
  const int64_t offsets[] = {0, 0, 1, 1, 2, 11};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(choice.tokens[i].text_offset, offsets[i]) << i;
  EXPECT_EQ(stream.completion_tokens(), 1);
}

TEST_F(ChoiceStreamTest, PutsAnUnscoredEchoInFront) {
  ChoiceStream stream(tokenizer_, {});
  stream.Prepend("prompt ");
  PushText(stream, "answer");
  EXPECT_EQ(stream.Take().text, "prompt answer");
}

TEST_F(ChoiceStreamTest, NamesAlternativesByTheirBytes) {
  ChoiceOptions options;
  options.want_logprobs = true;
  ChoiceStream stream(tokenizer_, options);
  TokenEvent event = Event(TinyToken('a'));
  event.top_count = 2;
  event.top[0] = {TinyToken('\xff'), -0.5f};
  event.top[1] = {kTinyEnd, -1.5f};
  stream.Push(event);
  const ReplyChoice choice = stream.Take();
  ASSERT_EQ(choice.tokens.size(), 1u);
  ASSERT_EQ(choice.tokens[0].top.size(), 2u);
  EXPECT_EQ(choice.tokens[0].top[0].bytes, "\xff");
  EXPECT_EQ(choice.tokens[0].top[1].bytes, "<|end|>");
  EXPECT_EQ(choice.tokens[0].top[1].logprob, -1.5f);
}

TEST_F(ChoiceStreamTest, SaysWhyRoomEnded) {
  const struct {
    StopDetail detail;
    const char* text;
  } cases[] = {{StopDetail::kMaxTokens, ""},
               {StopDetail::kContext, "context"},
               {StopDetail::kKvRoom, "kv_room"}};
  for (const auto& [detail, text] : cases) {
    ChoiceStream stream(tokenizer_, {});
    stream.Push(LastEvent(FinishReason::kLength, detail));
    const ReplyChoice choice = stream.Take();
    EXPECT_EQ(choice.finish_reason, "length");
    EXPECT_EQ(choice.stop_detail, text);
  }
}

TEST_F(ChoiceStreamTest, TellsACancelFromAnEnd) {
  ChoiceStream stream(tokenizer_, {});
  stream.Push(LastEvent(FinishReason::kCancelled));
  EXPECT_TRUE(stream.finished());
  EXPECT_TRUE(stream.cancelled());
}

}  // namespace
}  // namespace remontoir
