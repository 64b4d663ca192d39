// Decoding, stop strings and logprobs that keep step with the text.
#include "server/choice_stream.h"

#include <utility>

#include "text/utf8.h"

namespace remontoir {

ChoiceStream::ChoiceStream(const Tokenizer& tokenizer, ChoiceOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      decoder_(tokenizer, options_.skip_special_tokens),
      prompt_decoder_(tokenizer, /*skip_special=*/false),
      stop_(options_.stop) {}

void ChoiceStream::Prepend(std::string_view text) {
  decoded_bytes_ += static_cast<int64_t>(text.size());
  decoded_characters_ += static_cast<int64_t>(CountUtf8(text));
  Pass(text);
}

void ChoiceStream::Push(const TokenEvent& event) {
  if (finished()) return;
  if (event.token != kNoToken) {
    if (event.is_prompt) {
      PushPromptToken(event);
    } else {
      PushToken(event);
    }
  }
  if (event.finish != FinishReason::kNone && !finished()) End(event.finish, event.detail);
}

// A prompt is its writer's text: no stop string counts in it, and its control tokens are spelled.
void ChoiceStream::PushPromptToken(const TokenEvent& event) {
  const bool hidden = prompt_tokens_seen_++ == 0 && options_.hide_first;
  if (!options_.echo) return;
  const std::string text = hidden ? std::string() : prompt_decoder_.Push(event.token);
  Decoded(event, text);
  Pass(text);
}

void ChoiceStream::PushToken(const TokenEvent& event) {
  if (completion_tokens_++ == 0) Prepend(prompt_decoder_.Finish());
  // The token that ended the answer is no part of it, unless its spelling was asked for.
  if (event.finish == FinishReason::kStop && options_.skip_special_tokens) return;
  const std::string text = decoder_.Push(event.token);
  Decoded(event, text);
  Pass(stop_.Push(text));
  if (stop_.stopped()) End(FinishReason::kStop, StopDetail::kNone);
}

std::string_view ChoiceStream::BytesOf(TokenId token) const {
  return tokenizer_.IsControl(token) ? std::string_view(tokenizer_.TokenSpelling(token))
                                     : tokenizer_.TokenBytes(token);
}

void ChoiceStream::Decoded(const TokenEvent& event, std::string_view text) {
  if (options_.want_logprobs) {
    Waiting& waiting = waiting_.emplace_back();
    waiting.begin_bytes = decoded_bytes_;
    waiting.end_bytes = decoded_bytes_ + static_cast<int64_t>(text.size());
    waiting.token.bytes = BytesOf(event.token);
    waiting.token.text_offset = decoded_characters_;
    if (event.has_logprob) waiting.token.logprob = event.logprob;
    waiting.token.top.reserve(event.top_count);
    for (int i = 0; i < event.top_count; ++i) {
      const TokenLogprob& other = event.top[i];
      waiting.token.top.push_back({std::string(BytesOf(other.token)), other.logprob});
    }
  }
  decoded_bytes_ += static_cast<int64_t>(text.size());
  decoded_characters_ += static_cast<int64_t>(CountUtf8(text));
}

void ChoiceStream::Pass(std::string_view text) {
  passed_bytes_ += static_cast<int64_t>(text.size());
  text_ += text;
  while (!waiting_.empty() && waiting_.front().end_bytes <= passed_bytes_) {
    scored_.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
}

void ChoiceStream::End(FinishReason finish, StopDetail detail) {
  finish_ = finish;
  detail_ = detail;
  if (!stop_.stopped()) {
    if (completion_tokens_ == 0) Pass(prompt_decoder_.Finish());
    std::string rest = stop_.Push(decoder_.Finish());
    rest += stop_.Finish();
    Pass(rest);
  }
  // A token of which a part is before the stop string belongs to the answer.
  for (Waiting& waiting : waiting_) {
    if (!stop_.stopped() || waiting.begin_bytes < passed_bytes_) {
      scored_.push_back(std::move(waiting.token));
    }
  }
  waiting_.clear();
}

ReplyChoice ChoiceStream::Take() {
  ReplyChoice choice;
  choice.index = options_.index;
  choice.text = std::exchange(text_, {});
  choice.has_logprobs = options_.want_logprobs;
  choice.tokens = std::exchange(scored_, {});
  if (finish_ == FinishReason::kStop) choice.finish_reason = "stop";
  if (finish_ == FinishReason::kLength) choice.finish_reason = "length";
  if (detail_ == StopDetail::kContext) choice.stop_detail = "context";
  if (detail_ == StopDetail::kKvRoom) choice.stop_detail = "kv_room";
  return choice;
}

}  // namespace remontoir
