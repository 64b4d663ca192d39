// Routing and the life of requests from admission to the end of their answer.
#include "server/service.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "api/error_body.h"
#include "api/headers.h"
#include "api/json_writer.h"
#include "api/responses.h"
#include "base/log.h"
#include "base/notifier.h"
#include "base/random.h"
#include "http/sse.h"
#include "metrics/exposition.h"
#include "server/arrival_writer.h"
#include "server/chat_handler.h"
#include "server/completion_handler.h"
#include "server/endpoints.h"
#include "server/generation_stream.h"
#include "server/info_handler.h"
#include "server/process_metrics.h"
#include "server/reply_room.h"
#include "server/request_room.h"
#include "server/request_schedule.h"
#include "server/room_metrics.h"
#include "server/server_metrics.h"
#include "server/text_worker.h"
#include "server/tokenize_handler.h"

namespace remontoir {
namespace {

constexpr int64_t kSlowReaderPeriodMs = 20;
constexpr size_t kClientIdBytesMax = 128;

using Planner = PlanOrError (*)(std::string_view body, const ServedModel& model,
                                const PlanInputs& inputs);
using TextAnswer = std::function<JsonOrError(std::string_view body, const ServedModel& model)>;

std::string RandomRequestId() {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "req_%016llx%016llx",
                static_cast<unsigned long long>(SystemRandomBits()),
                static_cast<unsigned long long>(SystemRandomBits()));
  return text.data();
}

// The client's own id when it is short and printable, else a new one.
std::string RequestIdFor(const HttpRequest& request) {
  for (const char* name : {kHeaderRequestId, kHeaderClientRequestId}) {
    const std::string_view id = request.headers.Find(name).value_or("");
    const bool printable = std::ranges::all_of(id, [](char c) { return c > 0x20 && c < 0x7f; });
    if (!id.empty() && id.size() <= kClientIdBytesMax && printable) return std::string(id);
  }
  return RandomRequestId();
}

HttpResponse JsonResponse(HttpHeaders headers, std::string body) {
  HttpResponse response;
  response.headers = std::move(headers);
  response.body = std::move(body);
  return response;
}

class ServiceImpl final : public Service, private HttpHandler, private ReplyWriter {
 public:
  ServiceImpl(ServiceOptions options, const Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        process_metrics_(options_.version, clock.UnixSeconds()) {}

  Status Listen();

  int port() const override { return server_->port(); }
  void Serve(const ServedModel& model) override;
  void Run() override;
  void Stop() override { server_->Stop(); }
  void WatchDescriptor(int descriptor, std::function<void()> task) override {
    server_->WatchDescriptor(descriptor, std::move(task));
  }

 private:
  // A request that isn't answered yet.
  struct InFlight {
    std::shared_ptr<HttpExchange> exchange;
    std::string request_id;
    TimePoint began;
    Endpoint endpoint = Endpoint::kOther;
    bool answered = false;                     // its answer has begun, and is counted
    std::shared_ptr<GenerationStream> stream;  // null while the text worker has it
  };

  void OnRequest(std::shared_ptr<HttpExchange> exchange) override;
  void OnClosed(uint64_t exchange_id) override;
  HttpResponse Refusal(int status, std::string_view reason) override;
  void StartStream(HttpExchange& exchange, HttpHeaders headers) override;
  void ReplyError(HttpExchange& exchange, const ErrorBody& error) override;
  void ReplyWhole(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers, bool is_long,
                  std::function<std::string()> write) override;
  void LogFinished(const HttpExchange& exchange, std::string fields) override;

  void Route(HttpExchange& exchange);
  // Whether the request's method is the route's; if not, it is answered.
  bool TakesMethod(HttpExchange& exchange, std::string_view method);
  void ReplyJson(HttpExchange& exchange, std::string body);
  void ReplyMetrics(HttpExchange& exchange);
  void ReplyModels(HttpExchange& exchange, std::string_view path);
  // Replies with what the text worker makes of the request's body.
  void AnswerFromText(HttpExchange& exchange, TextAnswer answer);
  void BeginGeneration(HttpExchange& exchange, Planner planner);
  // Why a request is refused before any work on its text, if it is.
  std::optional<ErrorBody> EarlyRefusal(const HttpRequest& request,
                                        const ScheduleHeaders& schedule) const;
  void StartGeneration(uint64_t exchange_id, std::shared_ptr<GenerationStream> stream);
  void HoldHeaders(uint64_t exchange_id);
  ArrivalNote NoteOf(const HttpRequest& request) const;
  void PumpAll();
  HttpHeaders CommonHeaders(uint64_t exchange_id) const;
  // Of an answer that generates.
  HttpHeaders HeadersFor(uint64_t exchange_id, const HttpHeaders& room) const;
  // Of one that generates nothing.
  HttpHeaders HeadersFor(uint64_t exchange_id) const;
  // An answer with this status begins now.
  void CountAnswer(const HttpExchange& exchange, int status);
  // The answer, whole.
  void Respond(HttpExchange& exchange, HttpResponse response);
  HttpResponse ErrorResponse(HttpHeaders headers, const ErrorBody& error) const;

  const ServiceOptions options_;
  const Clock& clock_;
  Notifier engine_events_;
  std::optional<ServedModel> model_;
  int64_t model_since_ = 0;                     // Unix seconds
  std::unique_ptr<ArrivalWriter> arrival_log_;  // null: none is kept
  std::unordered_map<uint64_t, InFlight> in_flight_;
  bool slow_reader_timer_armed_ = false;
  std::unique_ptr<HttpServer> server_;
  ServerMetrics metrics_;
  std::optional<RoomMetrics> room_metrics_;  // since Serve
  ProcessMetrics process_metrics_;
  RenderCache render_cache_;                 // the text worker's
  std::unique_ptr<TextWorker> text_worker_;  // while Run runs
};

Status ServiceImpl::Listen() {
  REM_ASSIGN_OR_RETURN(server_, HttpServer::Create(options_.http, *this));
  server_->WatchDescriptor(engine_events_.descriptor(), [this] {
    engine_events_.Clear();
    PumpAll();
  });
  return Status::Ok();
}

void ServiceImpl::Serve(const ServedModel& model) {
  server_->Post([this, model] {
    model_ = model;
    model_since_ = clock_.UnixSeconds();
    room_metrics_.emplace(*model.plan);
    metrics_.ready.Set(1);
  });
}

void ServiceImpl::Run() {
  // Not before: a thread made in Create would take signals that its caller is yet to block.
  text_worker_ = std::make_unique<TextWorker>(options_.text_queue_max);
  if (!options_.arrival_log.path.empty()) {
    arrival_log_ = std::make_unique<ArrivalWriter>(options_.arrival_log, clock_);
  }
  server_->Run();
  // From here on nothing looks at the model any more.
  text_worker_.reset();
  in_flight_.clear();
  arrival_log_.reset();
}

void ServiceImpl::OnRequest(std::shared_ptr<HttpExchange> exchange) {
  InFlight request;
  request.exchange = exchange;
  request.request_id = RequestIdFor(exchange->request());
  request.began = clock_.Now();
  in_flight_.emplace(exchange->id(), std::move(request));
  Route(*exchange);
  if (exchange->closed()) in_flight_.erase(exchange->id());
}

void ServiceImpl::OnClosed(uint64_t exchange_id) {
  const auto found = in_flight_.find(exchange_id);
  if (found == in_flight_.end()) return;
  if (!found->second.answered) metrics_.CountAnswer(found->second.endpoint, AnswerClass::kNone);
  in_flight_.erase(found);
}

bool ServiceImpl::TakesMethod(HttpExchange& exchange, std::string_view method) {
  const HttpRequest& request = exchange.request();
  if (request.method == method || (method == "GET" && request.method == "HEAD")) return true;
  HttpHeaders headers = HeadersFor(exchange.id());
  headers.Add(kHeaderAllow, std::string(method));
  Respond(exchange,
          ErrorResponse(std::move(headers), MethodNotAllowed(request.method, request.path)));
  return false;
}

void ServiceImpl::Route(HttpExchange& exchange) {
  const std::string_view path = exchange.request().path;
  const PathEntry* const entry = FindPath(path);
  if (entry == nullptr) {
    return ReplyError(exchange, PathNotFound(exchange.request().method, path));
  }
  in_flight_.at(exchange.id()).endpoint = entry->endpoint;
  if (!TakesMethod(exchange, entry->method)) return;
  // Who scrapes has no key to give, and loading is worth watching.
  if (entry->endpoint == Endpoint::kMetrics) return ReplyMetrics(exchange);
  const auto authorization = exchange.request().headers.Find(kHeaderAuthorization);
  // A probe needs no key.
  if (entry->endpoint != Endpoint::kHealth &&
      !options_.api_keys.Allows(authorization.value_or(""))) {
    return ReplyError(exchange, InvalidApiKey());
  }
  if (!model_.has_value()) return ReplyError(exchange, Loading());
  const int64_t now = clock_.UnixSeconds();
  switch (entry->endpoint) {
    case Endpoint::kHealth: return ReplyJson(exchange, R"({"status":"ok"})");
    case Endpoint::kModels: return ReplyModels(exchange, path);
    case Endpoint::kModelInfo: return ReplyJson(exchange, ModelInfo(*model_));
    case Endpoint::kServerInfo: return ReplyJson(exchange, ServerInfo(*model_, options_.version));
    case Endpoint::kEnginePlan: return ReplyJson(exchange, PlanInfo(*model_->plan));
    case Endpoint::kChat: return BeginGeneration(exchange, PlanChat);
    case Endpoint::kCompletion: return BeginGeneration(exchange, PlanCompletion);
    case Endpoint::kMetrics:
    case Endpoint::kOther: break;  // answered above
    case Endpoint::kTokenize:
      return AnswerFromText(exchange, [now](std::string_view body, const ServedModel& model) {
        return Tokenize(body, model, now);
      });
    case Endpoint::kDetokenize: return AnswerFromText(exchange, Detokenize);
    case Endpoint::kRenderChat:
      return AnswerFromText(exchange, [this, now](std::string_view body, const ServedModel& model) {
        return RenderChat(body, model, now, render_cache_);
      });
  }
}

void ServiceImpl::ReplyModels(HttpExchange& exchange, std::string_view path) {
  const int64_t context = model_->engine->context_max();
  if (path.size() > kModelsPath.size()) {
    const std::string name = PercentDecode(path.substr(kModelsPath.size() + 1));
    if (name.empty() || !model_->names.Answers(name)) {
      return ReplyError(exchange, ModelNotFound(name));
    }
    return ReplyJson(exchange, ModelJson({name, model_since_, context}));
  }
  std::vector<ModelEntry> models = {{model_->names.primary, model_since_, context}};
  for (const std::string& alias : model_->names.aliases) {
    models.push_back({alias, model_since_, context});
  }
  ReplyJson(exchange, ModelListJson(models));
}

void ServiceImpl::AnswerFromText(HttpExchange& exchange, TextAnswer answer) {
  auto job = [this, answer = std::move(answer), model = *model_, id = exchange.id(),
              held = in_flight_.at(exchange.id()).exchange] {
    server_->Post([this, id, reply = answer(held->request().body, model)]() mutable {
      const auto found = in_flight_.find(id);
      if (found == in_flight_.end()) return;  // the client left
      HttpExchange& asking = *found->second.exchange;
      if (auto* json = std::get_if<std::string>(&reply)) {
        ReplyJson(asking, std::move(*json));
      } else {
        ReplyError(asking, std::get<ErrorBody>(reply));
      }
      in_flight_.erase(id);
    });
  };
  if (!text_worker_->TryRun(std::move(job))) ReplyError(exchange, QueueFull());
}

void ServiceImpl::BeginGeneration(HttpExchange& exchange, Planner planner) {
  const HttpRequest& request = exchange.request();
  PlanInputs inputs = {.entropy = SystemRandomBits(), .created = clock_.UnixSeconds()};
  if (const auto error = ReadRoomHeaders(request.headers, inputs.room)) {
    return ReplyError(exchange, *error);
  }
  if (const auto error = ReadScheduleHeaders(request.headers, inputs.schedule)) {
    return ReplyError(exchange, *error);
  }
  if (const auto refusal = EarlyRefusal(request, inputs.schedule)) {
    return ReplyError(exchange, *refusal);
  }
  // The worker reads the request only, which nobody changes.
  const InFlight& asking = in_flight_.at(exchange.id());
  auto job = [this, planner, model = *model_, id = exchange.id(), held = asking.exchange,
              began = asking.began, inputs = std::move(inputs)]() mutable {
    PlanOrError plan = planner(held->request().body, model, inputs);
    std::shared_ptr<GenerationStream> stream;
    std::optional<ErrorBody> error;
    if (auto* made = std::get_if<GenerationPlan>(&plan)) {
      made->text_us = ElapsedUs(began, clock_.Now());
      stream =
          std::make_shared<GenerationStream>(std::move(*made), *model.tokenizer, engine_events_);
    } else {
      error = std::get<ErrorBody>(std::move(plan));
    }
    server_->Post([this, id, stream = std::move(stream), error = std::move(error)] {
      const auto found = in_flight_.find(id);
      if (found == in_flight_.end()) return;  // the client left
      if (stream != nullptr) return StartGeneration(id, stream);
      ReplyError(*found->second.exchange, *error);
      in_flight_.erase(id);
    });
  };
  if (!text_worker_->TryRun(std::move(job))) ReplyError(exchange, QueueFull());
}

std::optional<ErrorBody> ServiceImpl::EarlyRefusal(const HttpRequest& request,
                                                   const ScheduleHeaders& schedule) const {
  Engine& engine = *model_->engine;
  if (engine.stats().waiting >= model_->engine_queue_max) return QueueFull(engine.QueueAdviceUs());
  const int64_t deadline_us = DeadlineUs(schedule, model_->schedule);
  if (deadline_us == 0) return std::nullopt;
  const AdmissionFacts facts = engine.PredictAtLeast(/*prompt_tokens=*/1, deadline_us,
                                                     FirstPriorityOf(schedule, request.body));
  if (facts.first_token_us <= deadline_us) return std::nullopt;
  return DeadlineUnmet(facts.first_token_us, deadline_us, facts.retry_us);
}

void ServiceImpl::StartGeneration(uint64_t exchange_id, std::shared_ptr<GenerationStream> stream) {
  InFlight& request = in_flight_.at(exchange_id);
  const std::optional<ErrorBody> error =
      stream->Start(*model_->engine, request.exchange, *this,
                    GenerationMeter(metrics_, request.began), NoteOf(request.exchange->request()));
  if (error.has_value()) {
    ReplyError(*request.exchange, *error);
    in_flight_.erase(exchange_id);
    return;
  }
  request.stream = std::move(stream);
  if (request.stream->streams()) HoldHeaders(exchange_id);
}

void ServiceImpl::HoldHeaders(uint64_t exchange_id) {
  const int64_t gone_ms = ElapsedUs(in_flight_.at(exchange_id).began, clock_.Now()) / 1000;
  server_->After(std::max<int64_t>(options_.stream_headers_held_ms - gone_ms, 0),
                 [this, exchange_id] {
                   const auto found = in_flight_.find(exchange_id);
                   if (found == in_flight_.end() || found->second.stream == nullptr) return;
                   found->second.stream->ReleaseHeaders();
                 });
}

ArrivalNote ServiceImpl::NoteOf(const HttpRequest& request) const {
  if (arrival_log_ == nullptr) return {};
  // A key that nobody checks tells little: many clients send the same.
  const std::string_view key =
      options_.api_keys.empty()
          ? ""
          : BearerKey(request.headers.Find(kHeaderAuthorization).value_or(""));
  return {arrival_log_.get(), key.empty() ? request.peer : std::string(key)};
}

void ServiceImpl::PumpAll() {
  const TimePoint now = clock_.Now();
  bool more = false;
  bool slow = false;
  for (auto it = in_flight_.begin(); it != in_flight_.end();) {
    using State = GenerationStream::State;
    const State state =
        it->second.stream == nullptr ? State::kWaiting : it->second.stream->Pump(now);
    more |= state == State::kMore;
    slow |= state == State::kPaused;
    it = state == State::kDone ? in_flight_.erase(it) : std::next(it);
  }
  if (more) engine_events_.Notify();
  if (slow && !slow_reader_timer_armed_) {
    slow_reader_timer_armed_ = true;
    server_->After(kSlowReaderPeriodMs, [this] {
      slow_reader_timer_armed_ = false;
      PumpAll();
    });
  }
}

HttpHeaders ServiceImpl::CommonHeaders(uint64_t exchange_id) const {
  const InFlight& request = in_flight_.at(exchange_id);
  const int64_t elapsed_us = ElapsedUs(request.began, clock_.Now());
  return {{kHeaderRequestId, request.request_id},
          {kHeaderInferenceVersion, InferenceVersion(options_.version)},
          {kHeaderProcessingMs, std::to_string(elapsed_us / 1000)}};
}

HttpHeaders ServiceImpl::HeadersFor(uint64_t exchange_id, const HttpHeaders& room) const {
  HttpHeaders headers = CommonHeaders(exchange_id);
  for (const auto& [name, value] : room) headers.Add(name, value);
  return headers;
}

HttpHeaders ServiceImpl::HeadersFor(uint64_t exchange_id) const {
  return HeadersFor(exchange_id, {{kHeaderKvCacheStrategy, KvStrategyName(options_.dynamic)}});
}

void ServiceImpl::CountAnswer(const HttpExchange& exchange, int status) {
  InFlight& request = in_flight_.at(exchange.id());
  if (std::exchange(request.answered, true)) return;
  metrics_.CountAnswer(request.endpoint, AnswerClassOf(status));
}

void ServiceImpl::Respond(HttpExchange& exchange, HttpResponse response) {
  CountAnswer(exchange, response.status);
  exchange.Respond(std::move(response));
}

void ServiceImpl::StartStream(HttpExchange& exchange, HttpHeaders headers) {
  CountAnswer(exchange, 200);
  // Before anything has room, the reply says what it would be.
  if (!headers.Find(kHeaderKvCacheStrategy).has_value()) {
    headers.Add(kHeaderKvCacheStrategy, KvStrategyName(options_.dynamic));
  }
  exchange.StartStream(200, kSseContentType, HeadersFor(exchange.id(), headers));
}

void ServiceImpl::ReplyJson(HttpExchange& exchange, std::string body) {
  Respond(exchange, JsonResponse(HeadersFor(exchange.id()), std::move(body)));
}

void ServiceImpl::ReplyMetrics(HttpExchange& exchange) {
  metrics_.in_flight.Set(static_cast<double>(in_flight_.size()));
  process_metrics_.Update();
  std::vector<const MetricSet*> sets = {&metrics_};
  MetricLabels alias_labels;
  if (model_.has_value()) {
    sets.push_back(&model_->engine->metrics());
    sets.push_back(&*room_metrics_);
    if (const MetricSet* experts = model_->engine->expert_metrics()) sets.push_back(experts);
    alias_labels.push_back({"model_name", model_->names.primary});
  }
  sets.push_back(&process_metrics_);
  HttpResponse response;
  response.headers = HeadersFor(exchange.id());
  response.content_type = kMetricsContentType;
  response.body = MetricsText(sets, alias_labels);
  Respond(exchange, std::move(response));
}

void ServiceImpl::ReplyWhole(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers,
                             bool is_long, std::function<std::string()> write) {
  CountAnswer(*exchange, 200);
  auto reply = [exchange, all = HeadersFor(exchange->id(), headers)](std::string body) {
    exchange->Respond(JsonResponse(all, std::move(body)));
  };
  if (is_long) {
    auto job = [this, reply, write] { server_->Post([reply, body = write()] { reply(body); }); };
    if (text_worker_->TryRun(std::move(job))) return;
  }
  reply(write());
}

void ServiceImpl::LogFinished(const HttpExchange& exchange, std::string fields) {
  const InFlight& request = in_flight_.at(exchange.id());
  JsonWriter json;
  LogJson(LogLevel::kInfo, "\"event\":\"request\",\"request_id\":" +
                               json.String(request.request_id).Take() + "," + fields);
}

HttpResponse ServiceImpl::ErrorResponse(HttpHeaders headers, const ErrorBody& error) const {
  HttpResponse response;
  response.status = error.http_status;
  response.headers = std::move(headers);
  if (error.retry_after_ms > 0) {
    response.headers.Add(kHeaderRetryAfterMs, std::to_string(error.retry_after_ms));
    response.headers.Add(kHeaderRetryAfter, std::to_string((error.retry_after_ms + 999) / 1000));
  }
  if (error.ttft_predicted_ms.has_value()) {
    response.headers.Add(kHeaderTtftPredictedMs, std::to_string(*error.ttft_predicted_ms));
  }
  if (error.http_status == 401) response.headers.Add(kHeaderWwwAuthenticate, "Bearer");
  response.body = ToJson(error);
  return response;
}

void ServiceImpl::ReplyError(HttpExchange& exchange, const ErrorBody& error) {
  if (error.http_status == 429) {
    metrics_.CountRefusal(error.ttft_predicted_ms.has_value() ? Refused::kDeadline
                                                              : Refused::kQueueFull);
  }
  Respond(exchange, ErrorResponse(HeadersFor(exchange.id()), error));
}

HttpResponse ServiceImpl::Refusal(int status, std::string_view reason) {
  metrics_.CountAnswer(Endpoint::kOther, AnswerClassOf(status));
  HttpHeaders headers = {{kHeaderRequestId, RandomRequestId()},
                         {kHeaderInferenceVersion, InferenceVersion(options_.version)},
                         {kHeaderProcessingMs, "0"},
                         {kHeaderKvCacheStrategy, KvStrategyName(options_.dynamic)}};
  return ErrorResponse(std::move(headers), HttpRefusal(status, reason));
}

}  // namespace

Result<std::unique_ptr<Service>> Service::Create(ServiceOptions options, const Clock& clock) {
  auto service = std::make_unique<ServiceImpl>(std::move(options), clock);
  REM_RETURN_IF_ERROR(service->Listen());
  return std::unique_ptr<Service>(std::move(service));
}

}  // namespace remontoir
