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
#include "server/choice_stream.h"
#include "server/generation_plan.h"
#include "server/server_metrics.h"

namespace remontoir {

// What a stream needs to know to write its head.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  // Begins an answer of server-sent events, with these headers beside those that every reply to
  // the exchange carries; both kinds of answers say which room they had (RoomReplyHeaders).
  virtual void StartStream(HttpExchange& exchange, HttpHeaders headers) = 0;
  virtual void ReplyError(HttpExchange& exchange, const ErrorBody& error) = 0;
  // Replies with the JSON that `write` returns, and headers as above; when that is long work, it
  // may run on another thread.
  virtual void ReplyWhole(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers, bool is_long,
                          std::function<std::string()> write) = 0;
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
  ~GenerationStream() { Cancel(); }
  GenerationStream(const GenerationStream&) = delete;
  GenerationStream& operator=(const GenerationStream&) = delete;

  // Loop thread, as all below. Hands the choices to the engine, all or none.
  std::optional<ErrorBody> Start(Engine& engine, std::shared_ptr<HttpExchange> exchange,
                                 ReplyWriter& writer, const GenerationMeter& meter);

  // Takes what the engine has for us, at most a bounded number of events. now: when it is there.
  State Pump(TimePoint now);

  // Nobody wants the rest.
  void Cancel();

 private:
  struct Choice {
    std::shared_ptr<Generation> generation;
    ChoiceStream text;
    bool admitted = false;  // an event came: the facts of its room are there
    bool begun = false;     // its role chunk is written
    bool ended = false;
    std::optional<TimePoint> last_token = {};  // when it came
  };

  void OnEvent(Choice& choice, const TokenEvent& event, TimePoint now);
  void WriteDelta(Choice& choice);
  void WriteChunk(const ReplyChoice& delta);
  void WriteEvent(std::string_view json);
  void BeginStream();
  void End();
  void EndWhole();
  void Fail(const ErrorBody& error);
  // Of the choices that have begun: when a stream's first chunk goes out, others may wait.
  HttpHeaders RoomSoFar() const;
  Usage UsageSoFar() const;
  ChunkUsage ChunkUsageNow() const;

  const ReplyFormat format_;
  const ReplyHead head_;
  const bool streams_;
  const bool include_usage_;
  const bool continuous_usage_;
  const int64_t prompt_tokens_;
  const int32_t choices_a_prompt_;
  std::vector<Choice> choices_;
  std::shared_ptr<HttpExchange> exchange_;
  ReplyWriter* writer_ = nullptr;
  std::optional<GenerationMeter> meter_;  // since Start
  bool stream_begun_ = false;
  bool done_ = false;
};

}  // namespace remontoir
