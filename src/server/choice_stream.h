// One choice of an answer: the engine's events in, the API's text and logprobs out.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "api/responses.h"
#include "engine/token_event.h"
#include "server/stop_matcher.h"
#include "tokenizer/stream_decoder.h"

namespace remontoir {

struct ChoiceOptions {
  int32_t index = 0;
  std::vector<std::string> stop;
  bool skip_special_tokens = true;
  bool want_logprobs = false;
  bool echo = false;        // the prompt's events are part of the text
  bool hide_first = false;  // echo: the first prompt token (a BOS that nobody typed) has no text
};

class ChoiceStream {
 public:
  // The tokenizer must outlive it.
  ChoiceStream(const Tokenizer& tokenizer, ChoiceOptions options);

  // Text that goes before all events (an echoed prompt that isn't scored).
  void Prepend(std::string_view text);

  // In order, none after finished().
  void Push(const TokenEvent& event);

  // The last event came or a stop string was found: then the engine can stop.
  bool finished() const { return finish_ != FinishReason::kNone; }
  // Ended by somebody else than the model, the limits or a stop string.
  bool cancelled() const { return finish_ == FinishReason::kCancelled; }

  // What is new since the last call; its finish_reason is set once finished.
  ReplyChoice Take();

  int32_t completion_tokens() const { return completion_tokens_; }

 private:
  // A token whose text isn't out yet.
  struct Waiting {
    ScoredToken token;
    int64_t begin_bytes = 0;  // in all text
    int64_t end_bytes = 0;
  };

  void PushPromptToken(const TokenEvent& event);
  void PushToken(const TokenEvent& event);
  // Counts the text of a token in and, where asked, keeps its logprob until that text is out.
  void Decoded(const TokenEvent& event, std::string_view text);
  void Pass(std::string_view text);
  void End(FinishReason finish, StopDetail detail);
  std::string_view BytesOf(TokenId token) const;

  const Tokenizer& tokenizer_;
  const ChoiceOptions options_;
  StreamDecoder decoder_;
  StreamDecoder prompt_decoder_;
  StopMatcher stop_;
  int64_t decoded_bytes_ = 0;
  int64_t decoded_characters_ = 0;
  int64_t passed_bytes_ = 0;
  int32_t prompt_tokens_seen_ = 0;
  int32_t completion_tokens_ = 0;
  std::string text_;                 // passed, not yet taken
  std::vector<ScoredToken> scored_;  // likewise
  std::deque<Waiting> waiting_;
  FinishReason finish_ = FinishReason::kNone;
  StopDetail detail_ = StopDetail::kNone;
};

}  // namespace remontoir
