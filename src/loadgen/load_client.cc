// One event loop on the calling thread: a coroutine per request.
#include "loadgen/load_client.h"

// First: the settings of Asio must be the same in every unit.
#include "http/asio.h"

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "loadgen/prompt_text.h"
#include "loadgen/response_reader.h"
#include "loadgen/sse_reader.h"

namespace remontoir {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kHeaderBytesMax = 64 << 10;
constexpr size_t kBodyBytesMax = 256 << 20;
constexpr size_t kEventBytesMax = 1 << 20;
constexpr size_t kErrorBytesMax = 4 << 10;
constexpr std::string_view kEventStream = "text/event-stream";

std::optional<double> NumberOf(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

std::string RequestText(const LoadClientOptions& options, const std::string& body) {
  std::string text = "POST " + options.target.path + std::string(EndpointPath(options.endpoint)) +
                     " HTTP/1.1\r\nHost: " + options.target.authority +
                     "\r\nConnection: close\r\nAccept: text/event-stream\r\n"
                     "Content-Type: application/json\r\n";
  for (const auto& [name, value] : options.headers) text += name + ": " + value + "\r\n";
  return text + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// What all exchanges of one load share. Loop thread only.
class LoadRun {
 public:
  LoadRun(const LoadClientOptions& options, const LoadPlan& plan, const Clock& clock)
      : options_(options), plan_(plan), clock_(clock), freed_(loop_), records_(plan.size()) {
    freed_.expires_at(asio::steady_timer::time_point::max());
  }

  Status Resolve();
  std::vector<LoadRecord> RunOpen();
  std::vector<LoadRecord> RunClosed(const ClosedLoop& loop);

 private:
  friend class Exchange;

  asio::awaitable<void> Dispatch();
  asio::awaitable<void> Client(const ClosedLoop& loop);
  asio::awaitable<void> Send(size_t index, int64_t intended_us, std::string text);
  asio::awaitable<void> SleepUntil(int64_t time_us);

  void Start() { start_ = clock_.Now(); }
  int64_t NowUs() const { return ElapsedUs(start_, clock_.Now()); }
  std::string TextOf(size_t index) const;

  const LoadClientOptions& options_;
  const LoadPlan& plan_;
  const Clock& clock_;
  asio::io_context loop_{1};
  asio::steady_timer freed_;  // cancelled when a connection has ended
  tcp::resolver::results_type addresses_;
  std::vector<LoadRecord> records_;
  size_t begun_ = 0;  // of a closed loop: requests taken from the plan
  int connections_ = 0;
  TimePoint start_;
  std::array<char, 64 << 10> buffer_;  // for all reads: used up before the next one
};

// One request and its reply.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(LoadRun& run, LoadRecord& record)
      : run_(run),
        record_(record),
        socket_(run.loop_),
        deadline_(run.loop_),
        reader_(kHeaderBytesMax, kBodyBytesMax),
        events_(kEventBytesMax) {}

  asio::awaitable<void> Run(std::string text);

 private:
  asio::awaitable<error_code> Connect();
  asio::awaitable<void> Read();
  void Take(std::string_view bytes);
  // False: the exchange is over.
  bool TakeHead();
  bool TakeBody();
  bool TakeEvent(const std::string& event);
  void TakeEnd();
  void ArmDeadline();

  void End(LoadOutcome outcome, std::string error) {
    over_ = true;
    record_.outcome = timed_out_ ? LoadOutcome::kTimedOut : outcome;
    record_.error = timed_out_ ? "no whole answer in time" : std::move(error);
  }
  // By a broken connection.
  void Break(const std::string& reason) {
    End(reader_.has_head() ? LoadOutcome::kCutShort : LoadOutcome::kUnreachable, reason);
  }

  LoadRun& run_;
  LoadRecord& record_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  ResponseReader reader_;
  SseReader events_;
  std::string error_body_;
  bool is_stream_ = false;
  bool head_taken_ = false;
  bool done_ = false;  // the stream's last event came
  bool over_ = false;
  bool timed_out_ = false;
};

void Exchange::ArmDeadline() {
  const int64_t left_us = record_.intended_us + run_.options_.reply_ms_max * 1000 - run_.NowUs();
  deadline_.expires_after(std::chrono::microseconds(std::max<int64_t>(left_us, 0)));
  // Its turn may come when the exchange has just ended.
  deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
    const std::shared_ptr<Exchange> self = weak.lock();
    if (error || self == nullptr || self->over_) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.close(ignored);
  });
}

asio::awaitable<error_code> Exchange::Connect() {
  error_code last = asio::error::host_not_found;
  for (const auto& address : run_.addresses_) {
    error_code ignored;
    socket_.close(ignored);
    const auto [error] = co_await socket_.async_connect(address.endpoint(), kAwait);
    last = error;
    if (!error || timed_out_) break;
  }
  co_return last;
}

asio::awaitable<void> Exchange::Run(std::string text) {
  record_.started_us = run_.NowUs();
  ArmDeadline();
  if (const error_code error = co_await Connect(); error || timed_out_) {
    Break(error.message());
  } else {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    const auto [failed, size] = co_await asio::async_write(socket_, asio::buffer(text), kAwait);
    record_.sent_us = run_.NowUs();
    // A server may refuse before it has read all: its reply is read even so.
    co_await Read();
    if (failed && record_.first_byte_us < 0) Break(failed.message());
  }
  record_.ended_us = run_.NowUs();
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<void> Exchange::Read() {
  while (!over_) {
    const auto [waited] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
    error_code error = waited;
    size_t size = 0;
    if (!error) size = socket_.read_some(asio::buffer(run_.buffer_), error);
    if (error == asio::error::would_block) continue;
    if (error == asio::error::eof) {
      TakeEnd();
    } else if (error) {
      Break(error.message());
    } else {
      Take({run_.buffer_.data(), size});
    }
  }
}

void Exchange::Take(std::string_view bytes) {
  if (record_.first_byte_us < 0) record_.first_byte_us = run_.NowUs();
  const Status fed = reader_.Feed(bytes);
  if (!fed.ok()) {
    End(reader_.has_head() ? LoadOutcome::kCutShort : LoadOutcome::kFailed, fed.message());
    return;
  }
  if (!reader_.has_head()) return;
  if (!head_taken_ && !TakeHead()) return;
  if (TakeBody() && reader_.is_done()) TakeEnd();
}

bool Exchange::TakeHead() {
  head_taken_ = true;
  record_.headers_us = run_.NowUs();
  record_.status = reader_.status();
  record_.batch_size = NumberOf(reader_.Header("X-Batch-Size"));
  record_.batch_window_ms = NumberOf(reader_.Header("X-Batch-Window-Ms"));
  record_.ttft_predicted_ms = NumberOf(reader_.Header("X-TTFT-Predicted-Ms"));
  record_.queue_ms = NumberOf(reader_.Header("X-Queue-Ms"));
  record_.retry_after_ms = NumberOf(reader_.Header("retry-after-ms"));
  const std::string type = reader_.Header("Content-Type").value_or("");
  is_stream_ = record_.status == 200 && type.starts_with(kEventStream);
  if (record_.status == 200 && !is_stream_) {
    End(LoadOutcome::kFailed, "the answer is no event stream but '" + type.substr(0, 100) + "'");
  }
  return !over_;
}

bool Exchange::TakeBody() {
  const std::string body = reader_.TakeBody();
  if (!is_stream_) {
    error_body_.append(body, 0, kErrorBytesMax - std::min(error_body_.size(), kErrorBytesMax));
    return true;
  }
  std::vector<std::string> events;
  const Status fed = events_.Feed(body, events);
  for (const std::string& event : events) {
    if (!TakeEvent(event)) return false;
  }
  if (!fed.ok()) End(LoadOutcome::kFailed, fed.message());
  return !over_;
}

bool Exchange::TakeEvent(const std::string& event) {
  // Before parsing: what arrived together has nearly one time.
  const int64_t now_us = run_.NowUs();
  const Result<StreamChunk> chunk = ReadChunk(event);
  if (!chunk.ok()) {
    End(LoadOutcome::kFailed, chunk.status().message());
    return false;
  }
  if (!chunk->error.empty()) {
    End(LoadOutcome::kFailed, chunk->error);
    return false;
  }
  done_ |= chunk->done;
  if (chunk->has_text) record_.pieces_us.push_back(now_us);
  if (chunk->prompt_tokens >= 0) record_.prompt_tokens = chunk->prompt_tokens;
  if (chunk->output_tokens >= 0) record_.output_tokens = chunk->output_tokens;
  return true;
}

void Exchange::TakeEnd() {
  const Status ended = reader_.FeedEnd();
  if (!ended.ok()) return Break(ended.message());
  if (record_.status == 429 || record_.status == 503) {
    return End(LoadOutcome::kRefused, ErrorMessage(error_body_));
  }
  if (record_.status != 200) return End(LoadOutcome::kFailed, ErrorMessage(error_body_));
  if (!done_) return End(LoadOutcome::kCutShort, "the stream ended without [DONE]");
  if (record_.pieces_us.empty()) return End(LoadOutcome::kFailed, "an answer without text");
  End(LoadOutcome::kAnswered, "");
}

Status LoadRun::Resolve() {
  tcp::resolver resolver(loop_);
  error_code error;
  addresses_ = resolver.resolve(options_.target.host, options_.target.port, error);
  if (!error) return Status::Ok();
  return IoError(options_.target.authority + ": " + error.message());
}

std::string LoadRun::TextOf(size_t index) const {
  const PlannedRequest& planned = plan_[index];
  const int32_t words = std::max(1, planned.prompt_tokens - options_.prompt_tokens_extra);
  const std::string prompt = PromptText(options_.seed, static_cast<int64_t>(index), words);
  return RequestText(
      options_, CompletionBody(options_.endpoint, options_.model, prompt, planned.output_tokens));
}

asio::awaitable<void> LoadRun::SleepUntil(int64_t time_us) {
  asio::steady_timer timer(loop_);
  // By this run's clock, which needn't be the timer's.
  for (int64_t left_us = time_us - NowUs(); left_us > 0; left_us = time_us - NowUs()) {
    timer.expires_after(std::chrono::microseconds(left_us));
    co_await timer.async_wait(kAwait);
  }
}

asio::awaitable<void> LoadRun::Send(size_t index, int64_t intended_us, std::string text) {
  LoadRecord& record = records_[index];
  record.planned = plan_[index];
  record.intended_us = intended_us;
  while (connections_ >= options_.connections_max) co_await freed_.async_wait(kAwait);
  ++connections_;
  const auto exchange = std::make_shared<Exchange>(*this, record);
  co_await exchange->Run(std::move(text));
  --connections_;
  freed_.cancel_one();
}

asio::awaitable<void> LoadRun::Dispatch() {
  for (size_t i = 0; i < plan_.size(); ++i) {
    // Written before its time, so that writing doesn't make it late.
    std::string text = TextOf(i);
    co_await SleepUntil(plan_[i].time_us);
    asio::co_spawn(loop_, Send(i, plan_[i].time_us, std::move(text)), asio::detached);
  }
}

asio::awaitable<void> LoadRun::Client(const ClosedLoop& loop) {
  int64_t ready_us = 0;
  while (begun_ < plan_.size()) {
    const size_t index = begun_++;
    std::string text = TextOf(index);
    ready_us += ThinkUs(loop.think_s, options_.seed, static_cast<int64_t>(index));
    if (loop.seconds > 0 && static_cast<double>(ready_us) >= loop.seconds * 1e6) break;
    co_await SleepUntil(ready_us);
    co_await Send(index, ready_us, std::move(text));
    ready_us = records_[index].ended_us;
  }
}

std::vector<LoadRecord> LoadRun::RunOpen() {
  Start();
  asio::co_spawn(loop_, Dispatch(), asio::detached);
  loop_.run();
  return std::move(records_);
}

std::vector<LoadRecord> LoadRun::RunClosed(const ClosedLoop& loop) {
  Start();
  for (int i = 0; i < loop.clients; ++i) asio::co_spawn(loop_, Client(loop), asio::detached);
  loop_.run();
  std::erase_if(records_, [](const LoadRecord& record) { return record.started_us < 0; });
  return std::move(records_);
}

}  // namespace

Result<std::vector<LoadRecord>> RunOpenLoad(const LoadClientOptions& options, const LoadPlan& plan,
                                            const Clock& clock) {
  LoadRun run(options, plan, clock);
  REM_RETURN_IF_ERROR(run.Resolve());
  return run.RunOpen();
}

Result<std::vector<LoadRecord>> RunClosedLoad(const LoadClientOptions& options,
                                              const ClosedLoop& loop, const LoadPlan& plan,
                                              const Clock& clock) {
  REM_CHECK(loop.clients > 0, "a closed loop wants a client");
  LoadRun run(options, plan, clock);
  REM_RETURN_IF_ERROR(run.Resolve());
  return run.RunClosed(loop);
}

}  // namespace remontoir
