// Events to chunks, or to one whole answer.
#include "server/generation_stream.h"

#include <algorithm>
#include <utility>

#include "api/headers.h"
#include "http/sse.h"
#include "server/reply_room.h"

namespace remontoir {
namespace {

constexpr int kEventsAPump = 128;                  // a few hundred microseconds of work
constexpr size_t kScoredTokensOnLoop = 512;        // their JSON takes a millisecond
constexpr size_t kPauseAtPendingBytes = 64 << 10;  // what waits for a slow reader

ErrorBody RefusedByEngine(const Status& status, ReplyFormat format) {
  const std::string_view param = format == ReplyFormat::kChat ? "messages" : "prompt";
  switch (status.code()) {
    case StatusCode::kResourceExhausted: return QueueFull();
    case StatusCode::kUnavailable: return ShuttingDown();
    case StatusCode::kInvalidArgument:
      return IsTokenLimit(status.message()) ? ContextLengthExceeded(status.message(), param)
                                            : InvalidRequest(status.message());
    default: return ServerError(status.message());
  }
}

}  // namespace

GenerationStream::GenerationStream(GenerationPlan plan, const Tokenizer& tokenizer,
                                   Notifier& notifier)
    : format_(plan.format),
      head_(std::move(plan.head)),
      streams_(plan.stream),
      include_usage_(plan.include_usage),
      continuous_usage_(plan.continuous_usage),
      prompt_tokens_(plan.prompt_tokens),
      choices_a_prompt_(plan.choices_a_prompt) {
  choices_.reserve(plan.choices.size());
  for (PlannedChoice& planned : plan.choices) {
    choices_.push_back({std::make_shared<Generation>(std::move(planned.request), &notifier),
                        ChoiceStream(tokenizer, std::move(planned.options))});
    choices_.back().text.Prepend(planned.echo);
  }
}

std::optional<ErrorBody> GenerationStream::Start(Engine& engine,
                                                 std::shared_ptr<HttpExchange> exchange,
                                                 ReplyWriter& writer,
                                                 const GenerationMeter& meter) {
  exchange_ = std::move(exchange);
  writer_ = &writer;
  meter_ = meter;
  for (const Choice& choice : choices_) {
    const Status status = engine.Submit(choice.generation);
    if (!status.ok()) {
      Cancel();
      return RefusedByEngine(status, format_);
    }
  }
  meter_->Begin(prompt_tokens_);
  return std::nullopt;
}

void GenerationStream::Cancel() {
  for (const Choice& choice : choices_) {
    if (!choice.ended) choice.generation->Cancel();
  }
  done_ = true;
}

GenerationStream::State GenerationStream::Pump(TimePoint now) {
  if (done_) return State::kDone;
  if (exchange_->pending_bytes() > kPauseAtPendingBytes) return State::kPaused;
  int budget = kEventsAPump;
  TokenEvent event;
  for (Choice& choice : choices_) {
    while (!choice.ended && budget > 0 && choice.generation->TryPop(event)) {
      --budget;
      OnEvent(choice, event, now);
      if (done_) return State::kDone;
    }
  }
  if (std::ranges::all_of(choices_, &Choice::ended)) {
    meter_->End(UsageSoFar().completion_tokens, now);
    End();
    return State::kDone;
  }
  return budget > 0 ? State::kWaiting : State::kMore;
}

void GenerationStream::OnEvent(Choice& choice, const TokenEvent& event, TimePoint now) {
  choice.admitted = true;
  if (event.token != kNoToken && !event.is_prompt) meter_->Token(choice.last_token, now);
  choice.text.Push(event);
  if (choice.text.cancelled()) return Fail(ShuttingDown());
  if (choice.text.finished()) {
    choice.ended = true;
    // After a stop string the engine would go on.
    if (event.finish == FinishReason::kNone) choice.generation->Cancel();
  }
  if (streams_) WriteDelta(choice);
}

void GenerationStream::BeginStream() {
  stream_begun_ = true;
  HttpHeaders headers = RoomSoFar();
  headers.Add(kHeaderCacheControl, "no-cache");
  headers.Add(kHeaderAccelBuffering, "no");
  writer_->StartStream(*exchange_, std::move(headers));
}

void GenerationStream::WriteEvent(std::string_view json) { exchange_->Write(SseEvent(json)); }

void GenerationStream::WriteChunk(const ReplyChoice& delta) {
  const ChunkUsage usage = ChunkUsageNow();
  WriteEvent(format_ == ReplyFormat::kChat ? ChatChunkJson(head_, delta, usage)
                                           : CompletionChunkJson(head_, delta, usage));
}

// One chunk a token that brought text, then one that says why it ended: the same chunks whatever
// else the server does.
void GenerationStream::WriteDelta(Choice& choice) {
  if (!stream_begun_) BeginStream();
  ReplyChoice delta = choice.text.Take();
  if (!choice.begun) {
    choice.begun = true;
    if (format_ == ReplyFormat::kChat) {
      WriteEvent(ChatRoleChunkJson(head_, delta.index, ChunkUsageNow()));
    }
  }
  ReplyChoice last;
  last.index = delta.index;
  last.finish_reason = std::exchange(delta.finish_reason, {});
  last.stop_detail = std::exchange(delta.stop_detail, {});
  if (!delta.text.empty() || !delta.tokens.empty()) WriteChunk(delta);
  if (choice.ended) WriteChunk(last);
}

HttpHeaders GenerationStream::RoomSoFar() const {
  std::vector<ChoiceRoom> rooms;
  rooms.reserve(choices_.size());
  for (const Choice& choice : choices_) {
    if (!choice.admitted) continue;
    rooms.push_back({choice.generation->room(), choice.generation->cached_tokens() > 0});
  }
  return RoomReplyHeaders(rooms);
}

Usage GenerationStream::UsageSoFar() const {
  Usage usage;
  usage.prompt_tokens = prompt_tokens_;
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].text.completion_tokens();
    // A prompt counts once, so does what was cached of it.
    if (i % static_cast<size_t>(choices_a_prompt_) == 0) {
      usage.cached_tokens += choices_[i].generation->cached_tokens();
    }
  }
  return usage;
}

ChunkUsage GenerationStream::ChunkUsageNow() const {
  if (!include_usage_) return {};
  return {true, continuous_usage_ ? std::optional<Usage>(UsageSoFar()) : std::nullopt};
}

void GenerationStream::End() {
  done_ = true;
  if (streams_) {
    if (include_usage_) {
      const Usage usage = UsageSoFar();
      WriteEvent(format_ == ReplyFormat::kChat ? ChatUsageChunkJson(head_, usage)
                                               : CompletionUsageChunkJson(head_, usage));
    }
    WriteEvent(kStreamEnd);
    return exchange_->Finish();
  }
  EndWhole();
}

void GenerationStream::EndWhole() {
  std::vector<ReplyChoice> choices;
  choices.reserve(choices_.size());
  size_t scored_tokens = 0;
  for (Choice& choice : choices_) {
    choices.push_back(choice.text.Take());
    scored_tokens += choices.back().tokens.size();
  }
  writer_->ReplyWhole(
      exchange_, RoomSoFar(), scored_tokens > kScoredTokensOnLoop,
      [format = format_, head = head_, choices = std::move(choices), usage = UsageSoFar()] {
        return format == ReplyFormat::kChat ? ChatCompletionJson(head, choices, usage)
                                            : CompletionJson(head, choices, usage);
      });
}

void GenerationStream::Fail(const ErrorBody& error) {
  Cancel();
  if (!stream_begun_) return writer_->ReplyError(*exchange_, error);
  WriteEvent(ToJson(error));
  exchange_->Finish();
}

}  // namespace remontoir
