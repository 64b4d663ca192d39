// Events to chunks, or to one whole answer.
#include "server/generation_stream.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/headers.h"
#include "api/json_writer.h"
#include "http/sse.h"
#include "server/reply_room.h"
#include "server/reply_schedule.h"

namespace remontoir {
namespace {

constexpr int kEventsAPump = 128;                  // a few hundred microseconds of work
constexpr size_t kScoredTokensOnLoop = 512;        // their JSON takes a millisecond
constexpr size_t kPauseAtPendingBytes = 64 << 10;  // what waits for a slow reader

// The deadline of the choices, from the request's last byte.
int64_t DeadlineOf(const GenerationPlan& plan) {
  return plan.choices.empty() ? 0 : plan.choices.front().request.first_token_us_max;
}

}  // namespace

ErrorBody GenerationStream::Refusal(const Status& status, const Generation& refused) const {
  const std::string_view param = format_ == ReplyFormat::kChat ? "messages" : "prompt";
  const AdmissionFacts admission = refused.admission();
  switch (status.code()) {
    case StatusCode::kResourceExhausted: return QueueFull(admission.retry_us);
    case StatusCode::kDeadlineExceeded:
      return DeadlineUnmet(text_us_ + admission.first_token_us, deadline_us_, admission.retry_us);
    case StatusCode::kUnavailable: return ShuttingDown();
    case StatusCode::kInvalidArgument:
      return IsTokenLimit(status.message()) ? ContextLengthExceeded(status.message(), param)
                                            : InvalidRequest(status.message());
    default: return ServerError(status.message());
  }
}

GenerationStream::GenerationStream(GenerationPlan plan, const Tokenizer& tokenizer,
                                   Notifier& notifier)
    : format_(plan.format),
      head_(std::move(plan.head)),
      streams_(plan.stream),
      include_usage_(plan.include_usage),
      continuous_usage_(plan.continuous_usage),
      wants_timings_(plan.wants_timings),
      policy_(plan.policy),
      text_us_(plan.text_us),
      deadline_us_(DeadlineOf(plan)),
      prompt_tokens_(plan.prompt_tokens),
      choices_a_prompt_(plan.choices_a_prompt) {
  choices_.reserve(plan.choices.size());
  for (PlannedChoice& planned : plan.choices) {
    if (deadline_us_ > 0) {
      planned.request.first_token_us_max = std::max<int64_t>(deadline_us_ - text_us_, 1);
    }
    choices_.push_back({std::make_shared<Generation>(std::move(planned.request), &notifier),
                        ChoiceStream(tokenizer, std::move(planned.options))});
    choices_.back().text.Prepend(planned.echo);
  }
}

GenerationStream::~GenerationStream() {
  Cancel();
  if (arrival_.has_value()) arrival_log_->End(*arrival_, UsageSoFar().completion_tokens);
}

std::optional<ErrorBody> GenerationStream::Start(Engine& engine,
                                                 std::shared_ptr<HttpExchange> exchange,
                                                 ReplyWriter& writer, const GenerationMeter& meter,
                                                 const ArrivalNote& note) {
  exchange_ = std::move(exchange);
  writer_ = &writer;
  meter_ = meter;
  for (const Choice& choice : choices_) {
    const Status status = engine.Submit(choice.generation);
    if (!status.ok()) {
      Cancel();
      return Refusal(status, *choice.generation);
    }
  }
  meter_->Begin(prompt_tokens_, PredictedUs());
  if (note.log != nullptr) {
    arrival_log_ = note.log;
    arrival_ = note.log->Begin(meter.began(), prompt_tokens_, note.client);
  }
  return std::nullopt;
}

// Of the choice whose first token is expected first.
int64_t GenerationStream::PredictedUs() const {
  int64_t first_us = std::numeric_limits<int64_t>::max();
  for (const Choice& choice : choices_) {
    first_us = std::min(first_us, choice.generation->admission().first_token_us);
  }
  return first_us > 0 ? text_us_ + first_us : 0;
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
  FindPlaced();
  // A stream's headers leave before the first token, as soon as its round is known.
  if (streams_ && !stream_begun_ && placed_.has_value()) BeginStream();
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
    FindPlaced();
    End();
    LogFinished(now);
    return State::kDone;
  }
  return budget > 0 ? State::kWaiting : State::kMore;
}

void GenerationStream::FindPlaced() {
  if (placed_.has_value()) return;
  const auto found = std::ranges::find_if(
      choices_, [](const Choice& choice) { return choice.generation->placed(); });
  if (found == choices_.end()) return;
  found->admitted = true;
  placed_ = static_cast<size_t>(found - choices_.begin());
}

void GenerationStream::ReleaseHeaders() {
  if (streams_ && !stream_begun_ && !done_) BeginStream();
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
  FindPlaced();  // it may be since Pump looked
  // A long prompt has its room long before the round of its first token.
  for (Choice& choice : choices_) {
    choice.admitted = choice.admitted || choice.generation->admitted();
  }
  HttpHeaders headers = HeadersSoFar();
  headers.Add(kHeaderCacheControl, "no-cache");
  headers.Add(kHeaderAccelBuffering, "no");
  writer_->StartStream(*exchange_, std::move(headers));
}

void GenerationStream::WriteEvent(std::string_view json) { exchange_->Write(SseEvent(json)); }

void GenerationStream::WriteChunk(const ReplyChoice& delta,
                                  const std::optional<ReplyTimings>& timings) {
  const ChunkUsage usage = ChunkUsageNow();
  const ReplyTimings* const told = timings.has_value() ? &*timings : nullptr;
  WriteEvent(format_ == ReplyFormat::kChat ? ChatChunkJson(head_, delta, usage, told)
                                           : CompletionChunkJson(head_, delta, usage, told));
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
  if (choice.ended) WriteChunk(last, LastTimings());
}

// Those of the chunk that says why the last choice ended, unless one with the usage follows.
std::optional<ReplyTimings> GenerationStream::LastTimings() const {
  if (include_usage_ || !std::ranges::all_of(choices_, &Choice::ended)) return std::nullopt;
  return TimingsWanted();
}

HttpHeaders GenerationStream::HeadersSoFar() const {
  ReplySchedule schedule = {.policy = policy_, .ttft_predicted_us = meter_->ttft_predicted_us()};
  if (placed_.has_value()) {
    schedule.round = FirstChoice().generation->round();
    schedule.queue_us = FirstChoice().generation->queue_us();
  }
  HttpHeaders headers = ScheduleReplyHeaders(schedule);
  std::vector<ChoiceRoom> rooms;
  rooms.reserve(choices_.size());
  for (const Choice& choice : choices_) {
    if (!choice.admitted) continue;
    rooms.push_back({choice.generation->room(), choice.generation->cached_tokens() > 0});
  }
  if (!rooms.empty()) {
    for (const auto& [name, value] : RoomReplyHeaders(rooms)) headers.Add(name, value);
  } else if (choices_.front().generation->request().room.dynamic) {
    headers.Add(kHeaderKvCacheStrategy, KvStrategyName(/*dynamic=*/true));
  }
  return headers;
}

ReplyTimings GenerationStream::TimingsNow() const {
  const Choice& first = FirstChoice();
  const GenerationTimes times = first.generation->times();
  const RoomFacts room = first.generation->room();
  ReplyTimings timings;
  if (meter_->ttft_predicted_us() > 0) timings.ttft_predicted_us = meter_->ttft_predicted_us();
  timings.ttft_us = meter_->ttft_us();
  if (first.admitted) timings.queue_us = times.queue_us;
  if (first.text.completion_tokens() > 0) timings.prefill_us = times.prefill_us;
  if (first.text.completion_tokens() > 1) timings.decode_first_us = times.decode_first_us;
  if (placed_.has_value()) {
    const RoundFacts round = first.generation->round();
    timings.batch_size = round.sequences;
    timings.batch_window_ms = round.window_ms;
    timings.batch_wait_us = round.hold_us;
  }
  timings.batch_policy = Name(policy_);
  timings.cached_tokens = UsageSoFar().cached_tokens;
  timings.kv_strategy = KvStrategyName(room.dynamic);
  timings.kv_bucket_tokens = room.bucket_tokens;
  timings.kv_init_us = room.init_us;
  const SparseReadings attention = first.generation->attention();
  if (attention.far_blocks > 0) {
    timings.attention_density =
        static_cast<double>(attention.chosen_blocks) / static_cast<double>(attention.far_blocks);
    timings.attention_residual = attention.residual_max;
  }
  return timings;
}

std::optional<ReplyTimings> GenerationStream::TimingsWanted() const {
  return wants_timings_ ? std::optional(TimingsNow()) : std::nullopt;
}

void GenerationStream::LogFinished(TimePoint now) const {
  const Usage usage = UsageSoFar();
  JsonWriter json;
  json.BeginObject();
  json.Key("id").String(head_.id);
  json.Key("stream").Bool(streams_);
  json.Key("choices").Int(static_cast<int64_t>(choices_.size()));
  json.Key("prompt_tokens").Int(usage.prompt_tokens);
  json.Key("completion_tokens").Int(usage.completion_tokens);
  json.Key("total_ms").Raw(MillisecondsText(ElapsedUs(meter_->began(), now)));
  WriteFields(json, TimingsNow());
  json.EndObject();
  const std::string object = json.Take();
  writer_->LogFinished(*exchange_, object.substr(1, object.size() - 2));
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
      const std::optional<ReplyTimings> timings = TimingsWanted();
      const ReplyTimings* const told = timings.has_value() ? &*timings : nullptr;
      WriteEvent(format_ == ReplyFormat::kChat ? ChatUsageChunkJson(head_, usage, told)
                                               : CompletionUsageChunkJson(head_, usage, told));
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
  writer_->ReplyWhole(exchange_, HeadersSoFar(), scored_tokens > kScoredTokensOnLoop,
                      [format = format_, head = head_, choices = std::move(choices),
                       usage = UsageSoFar(), timings = TimingsWanted()] {
                        const ReplyTimings* const told = timings.has_value() ? &*timings : nullptr;
                        return format == ReplyFormat::kChat
                                   ? ChatCompletionJson(head, choices, usage, told)
                                   : CompletionJson(head, choices, usage, told);
                      });
}

void GenerationStream::Fail(const ErrorBody& error) {
  Cancel();
  if (!stream_begun_) return writer_->ReplyError(*exchange_, error);
  WriteEvent(ToJson(error));
  exchange_->Finish();
}

}  // namespace remontoir
