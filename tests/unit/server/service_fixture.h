// A service over the alphabet model, on a thread of its own, spoken to through a bare socket.
#pragma once

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/service.h"
#include "tests/unit/http/raw_client.h"
#include "tests/unit/server/alphabet_runner.h"
#include "tokenizer/chat_template.h"

namespace remontoir {

// Whether the condition comes true within the bound.
template <class Condition>
bool Await(Condition condition) {
  for (int i = 0; i < kWaitMs; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

struct ServiceCase {
  ServiceOptions service = {};
  EngineOptions engine = {
      .sequences_max = 4, .queue_max = 8, .round_tokens_max = 64, .reserve_tokens_default = 128};
  bool any_model_name = false;
  bool add_bos = false;
  bool serve = true;  // false: stay loading
  bool has_chat_template = true;
  bool trust_content_specials = false;
  ScheduleDefaults schedule = {};  // its policy is the engine's
};

// Writes "role:content\n" for each message and, behind them, "assistant:<|start|>".
inline constexpr char kTinyChatTemplate[] =
    "{% for message in messages %}{% if message['role'] == 'tool' %}"
    "{{ raise_exception('no tools here') }}{% endif %}{{ message['role'] + ':' + "
    "message['content'] + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant:<|start|>{% endif %}";

// The value of a header in a response's head, or "-".
inline std::string HeaderOf(const std::string& head, const std::string& name) {
  const std::string begin = "\r\n" + name + ": ";
  const size_t at = head.find(begin);
  if (at == std::string::npos) return "-";
  EXPECT_EQ(head.find(begin, at + 1), std::string::npos) << name << " is there twice";
  const size_t value = at + begin.size();
  return head.substr(value, head.find("\r\n", value) - value);
}

class ServiceUnderTest {
 public:
  explicit ServiceUnderTest(ServiceCase c = {})
      : tokenizer_(MakeTinyTokenizer(c.add_bos)), runner(kLimits), case_(std::move(c)) {
    case_.service.version = "1.2.3";
    plan.context_max = kLimits.context_max;
    plan.sequences_max = case_.engine.sequences_max;
    plan.dynamic = case_.service.dynamic;
    plan.bucket_tokens = case_.engine.bucket_tokens;
    plan.bucket_capacity = case_.engine.bucket_capacity;
    plan.memory.kv_page_count = kPages;
  }

  // After on_run is set.
  void Start() {
    auto created = Service::Create(case_.service, clock_);
    ASSERT_TRUE(created.ok()) << created.status().message();
    service = std::move(created).value();
    auto made = Engine::Create(runner, clock_, case_.engine, kPages);
    ASSERT_TRUE(made.ok()) << made.status().message();
    engine = std::move(made).value();
    auto chat_template = ChatTemplate::Compile(kTinyChatTemplate);
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
    chat_template_ = std::make_unique<ChatTemplate>(std::move(chat_template).value());
    if (case_.serve) Serve();
    thread_ = std::thread([this] { service->Run(); });
  }

  void Serve() {
    ServedModel model;
    model.tokenizer = &tokenizer_;
    model.chat_template = case_.has_chat_template ? chat_template_.get() : nullptr;
    model.engine = engine.get();
    model.plan = &plan;
    model.names = {"alphabet", {"abc"}, case_.any_model_name};
    model.trust_content_specials = case_.trust_content_specials;
    model.schedule = case_.schedule;
    model.schedule.policy = case_.engine.scheduler.policy;
    model.engine_queue_max = case_.engine.queue_max;
    model.path = "dir/alphabet.gguf";
    model.backend = "letters";
    service->Serve(model);
  }

  ~ServiceUnderTest() {
    if (thread_.joinable()) {
      service->Stop();
      service->Stop();
      thread_.join();
    }
    engine.reset();
  }

  // One request on a connection of its own.
  RawClient::Response Ask(std::string_view method, std::string_view path,
                          std::string_view body = "", std::string_view headers = "") {
    RawClient client(service->port());
    client.Send(RequestText(method, path, body, headers));
    return client.ReadResponse();
  }
  boost::json::value AskJson(std::string_view path, std::string_view body) {
    return boost::json::parse(Ask("POST", path, body).body);
  }
  // The payloads of a stream's events.
  std::vector<std::string> AskStream(std::string_view path, std::string_view body) {
    std::vector<std::string> events;
    const std::string stream = Ask("POST", path, body).body;
    for (size_t at = 0; at < stream.size();) {
      const size_t end = stream.find("\n\n", at);
      EXPECT_EQ(stream.substr(at, 6), "data: ");
      events.push_back(stream.substr(at + 6, end - at - 6));
      at = end == std::string::npos ? stream.size() : end + 2;
    }
    return events;
  }

  static std::string RequestText(std::string_view method, std::string_view path,
                                 std::string_view body, std::string_view headers = "") {
    std::string text;
    text.append(method).append(" ").append(path).append(" HTTP/1.1\r\nHost: t\r\n");
    text.append(headers).append("Content-Length: ").append(std::to_string(body.size()));
    return text.append("\r\n\r\n").append(body);
  }

  // True once the engine holds nothing any more.
  bool AwaitIdleEngine() {
    return Await([this] {
      const EngineStats stats = engine->stats();
      return stats.running == 0 && stats.waiting == 0 &&
             stats.kv_pages_unheld() == stats.kv.pages_total;
    });
  }

 private:
  static constexpr int32_t kPages = 64;
  static constexpr RoundLimits kLimits = {
      .rows_max = 128, .sequences_max = 4, .logit_rows_max = 128, .context_max = 512};

  const Tokenizer tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  SystemClock clock_;

 public:
  AlphabetRunner runner;
  EnginePlan plan;  // what the service tells of memory; nothing is taken by it
  std::unique_ptr<Service> service;
  std::unique_ptr<Engine> engine;

 private:
  ServiceCase case_;
  std::thread thread_;
};

}  // namespace remontoir
