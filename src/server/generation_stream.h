// The answer to one generation request while it is made: events in, HTTP out, cancel when unwanted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/error_body.h"
#include "api/responses.h"
#include "base/notifier.h"
#include "engine/engine.h"
#include "http/http_server.h"
#include "server/arrival_writer.h"
#include "server/choice_stream.h"
#include "server/generation_plan.h"
#include "server/server_metrics.h"

namespace remontoir {

// What a stream needs to know to write its head.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  // Begins an answer of server-sent events, with these headers beside those that every reply to
  // the exchange carries; both kinds of answers say which room they had (RoomReplyHeaders) and how
  // they were scheduled (ScheduleReplyHeaders), as far as it is known.
  virtual void StartStream(HttpExchange& exchange, HttpHeaders headers) = 0;
  virtual void ReplyError(HttpExchange& exchange, const ErrorBody& error) = 0;
  // Replies with the JSON that `write` returns, and headers as above; when that is long work, it
  // may run on another thread.
  virtual void ReplyWhole(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers, bool is_long,
                          std::function<std::string()> write) = 0;
  // A generation is complete: `fields` are members of a JSON object that say how it went.
  virtual void LogFinished(const HttpExchange& exchange, std::string fields) = 0;
};

// Where a request's arrival is written down. `log` may be null: nowhere.
struct ArrivalNote {
  ArrivalWriter* log = nullptr;  // outlives the stream
  std::string client = {};       // who asks: a key or an address
};

class GenerationStream {
 public:
  enum class State {
    kWaiting,  // for events
    kMore,     // there may be events left: pump again soon
    kPaused,   // the client reads slowly: pump again later
    kDone,
  };

  // Any thread. The notifier wakes whoever pumps and outlives the engine; the tokenizer and the
  // writer outlive this.
  GenerationStream(GenerationPlan plan, const Tokenizer& tokenizer, Notifier& notifier);
  ~GenerationStream();
  GenerationStream(const GenerationStream&) = delete;
  GenerationStream& operator=(const GenerationStream&) = delete;

  // Loop thread, as all below. Hands the choices to the engine, all or none.
  std::optional<ErrorBody> Start(Engine& engine, std::shared_ptr<HttpExchange> exchange,
                                 ReplyWriter& writer, const GenerationMeter& meter,
                                 const ArrivalNote& note = {});

  // Takes what the engine has for us, at most a bounded number of events. now: when it is there.
  State Pump(TimePoint now);

  // A stream's headers have waited long enough for the round that they tell of.
  void ReleaseHeaders();

  // Nobody wants the rest.
  void Cancel();

  bool streams() const { return streams_; }

 private:
  struct Choice {
    std::shared_ptr<Generation> generation;
    ChoiceStream text;
    bool admitted = false;  // the facts of its room are there
    bool begun = false;     // its role chunk is written
    bool ended = false;
    std::optional<TimePoint> last_token = {};  // when it came
  };

  ErrorBody Refusal(const Status& status, const Generation& refused) const;
  void FindPlaced();
  void OnEvent(Choice& choice, const TokenEvent& event, TimePoint now);
  void WriteDelta(Choice& choice);
  void WriteChunk(const ReplyChoice& delta, const std::optional<ReplyTimings>& timings = {});
  void WriteEvent(std::string_view json);
  void BeginStream();
  void End();
  void EndWhole();
  void Fail(const ErrorBody& error);
  // Of the choices that have begun: when a stream's headers go out, others may wait.
  HttpHeaders HeadersSoFar() const;
  // Of the choice whose first token comes first.
  const Choice& FirstChoice() const { return choices_[placed_.value_or(0)]; }
  ReplyTimings TimingsNow() const;
  // Empty unless the client asked for them.
  std::optional<ReplyTimings> TimingsWanted() const;
  std::optional<ReplyTimings> LastTimings() const;
  int64_t PredictedUs() const;
  void LogFinished(TimePoint now) const;
  Usage UsageSoFar() const;
  ChunkUsage ChunkUsageNow() const;

  const ReplyFormat format_;
  const ReplyHead head_;
  const bool streams_;
  const bool include_usage_;
  const bool continuous_usage_;
  const bool wants_timings_;
  const SchedulingPolicy policy_;
  const int64_t text_us_;      // from the request's last byte to the plan
  const int64_t deadline_us_;  // of the first token, from the same; 0: none
  const int64_t prompt_tokens_;
  const int32_t choices_a_prompt_;
  std::vector<Choice> choices_;
  std::shared_ptr<HttpExchange> exchange_;
  ReplyWriter* writer_ = nullptr;
  std::optional<GenerationMeter> meter_;  // since Start
  ArrivalWriter* arrival_log_ = nullptr;
  std::optional<ArrivalWriter::Ticket> arrival_;
  std::optional<size_t> placed_;  // the choice that was first seen to be placed
  bool stream_begun_ = false;
  bool done_ = false;
};

}  // namespace remontoir
