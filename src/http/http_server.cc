// The event loop: accepting, the connections' book, deadlines, tasks from other threads, stopping.
#include "http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "http/asio.h"
#include "http/connection.h"

namespace remontoir {

HttpResponse HttpHandler::Refusal(int status, std::string_view reason) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::string(reason) + "\n";
  return response;
}

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr int kBacklog = 4096;
constexpr int kRefusedConnectionsMax = 64;  // being told 503 at a time; beyond: closed unanswered
constexpr size_t kReadBytes = 64 << 10;
constexpr auto kDeadlinePeriod = std::chrono::milliseconds(50);
constexpr auto kAcceptRetry = std::chrono::milliseconds(50);  // the system is out of descriptors
constexpr rlim_t kOtherDescriptors = 256;

// Room for a descriptor a connection, as far as the hard limit allows.
void RaiseDescriptorLimit(int connections_max) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(connections_max) + kOtherDescriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

class EventLoopServer final : public HttpServer, public ConnectionHost {
 public:
  EventLoopServer(const HttpServerOptions& options, HttpHandler& handler)
      : options_(options), handler_(handler), acceptor_(loop_), deadline_timer_(loop_) {}
  ~EventLoopServer() override { connections_.clear(); }

  Status Listen();

  int port() const override { return port_; }
  void Run() override;
  void Post(std::function<void()> task) override { asio::post(loop_, std::move(task)); }
  void Stop() override;
  void WatchDescriptor(int descriptor, std::function<void()> callback) override;
  void After(int64_t after_ms, std::function<void()> task) override;

  const HttpServerOptions& options() const override { return options_; }
  HttpHandler& handler() override { return handler_; }
  uint64_t NextExchangeId() override { return ++last_exchange_id_; }
  TimePoint Now() const override { return clock_.Now(); }
  std::string_view DateHeader() override;
  std::span<char> ReadBuffer() override { return read_buffer_; }
  void PostOnLoop(std::function<void()> task) override { asio::post(loop_, std::move(task)); }
  void Forget(const std::shared_ptr<Connection>& connection) override;

 private:
  // Takes the descriptor back from Asio without closing it.
  struct Watch {
    Watch(asio::io_context& loop, int borrowed, std::function<void()> on_readable)
        : descriptor(loop, borrowed), callback(std::move(on_readable)) {}
    ~Watch() { descriptor.release(); }
    asio::posix::stream_descriptor descriptor;
    std::function<void()> callback;
  };

  asio::awaitable<void> AcceptLoop();
  void Adopt(tcp::socket socket);
  void ArmDeadlineTimer();
  void ArmWatch(Watch& watch);
  void BeginStop();
  void CloseAll();
  void EndWhenEmpty();

  const HttpServerOptions options_;
  HttpHandler& handler_;
  SystemClock clock_;
  asio::io_context loop_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer deadline_timer_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::vector<char> read_buffer_ = std::vector<char>(kReadBytes);
  uint64_t last_exchange_id_ = 0;
  int port_ = 0;
  bool stopping_ = false;
  int64_t date_second_ = -1;
  std::string date_header_;
};

Status EventLoopServer::Listen() {
  const std::string where = options_.host + ":" + std::to_string(options_.port);
  const auto failed = [&where](const error_code& error) {
    return IoError("cannot listen on " + where + ": " + error.message());
  };
  if (options_.port < 0 || options_.port > 65535) {
    return InvalidArgument("port " + std::to_string(options_.port) + " is not in 0..65535");
  }
  error_code error;
  const auto endpoints = tcp::resolver(loop_).resolve(options_.host, std::to_string(options_.port),
                                                      tcp::resolver::passive, error);
  if (error || endpoints.empty()) return failed(error);
  const tcp::endpoint endpoint = endpoints.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (error) return failed(error);
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (error) return failed(error);
  port_ = acceptor_.local_endpoint(error).port();
  if (error) return failed(error);
  RaiseDescriptorLimit(options_.connections_max);
  asio::co_spawn(loop_, AcceptLoop(), asio::detached);
  ArmDeadlineTimer();
  return Status::Ok();
}

void EventLoopServer::Run() {
  const auto work = asio::make_work_guard(loop_);
  loop_.run();
}

asio::awaitable<void> EventLoopServer::AcceptLoop() {
  while (!stopping_) {
    auto [error, socket] = co_await acceptor_.async_accept(asio::as_tuple(asio::use_awaitable));
    if (stopping_) co_return;
    if (!error) {
      Adopt(std::move(socket));
      continue;
    }
    asio::steady_timer pause(loop_, kAcceptRetry);
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void EventLoopServer::Adopt(tcp::socket socket) {
  const int open = static_cast<int>(connections_.size());
  if (open >= options_.connections_max + kRefusedConnectionsMax) return;
  const auto connection = std::make_shared<Connection>(*this, std::move(socket));
  connections_.insert(connection);
  if (open >= options_.connections_max) {
    connection->Refuse();
  } else {
    connection->Start();
  }
}

void EventLoopServer::Forget(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  EndWhenEmpty();
}

void EventLoopServer::ArmDeadlineTimer() {
  deadline_timer_.expires_after(kDeadlinePeriod);
  deadline_timer_.async_wait([this](const error_code& error) {
    if (error) return;
    // A copy: a deadline removes its connection from the book.
    const std::vector<std::shared_ptr<Connection>> open(connections_.begin(), connections_.end());
    for (const auto& connection : open) connection->CheckDeadline();
    ArmDeadlineTimer();
  });
}

void EventLoopServer::WatchDescriptor(int descriptor, std::function<void()> callback) {
  watches_.push_back(std::make_unique<Watch>(loop_, descriptor, std::move(callback)));
  ArmWatch(*watches_.back());
}

void EventLoopServer::ArmWatch(Watch& watch) {
  watch.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this, &watch](const error_code& error) {
                                if (error) return;
                                watch.callback();
                                ArmWatch(watch);
                              });
}

void EventLoopServer::After(int64_t after_ms, std::function<void()> task) {
  auto timer = std::make_shared<asio::steady_timer>(loop_, std::chrono::milliseconds(after_ms));
  timer->async_wait([timer, task = std::move(task)](const error_code& error) {
    if (!error) task();
  });
}

void EventLoopServer::Stop() {
  asio::post(loop_, [this] {
    if (stopping_) return CloseAll();
    BeginStop();
  });
}

void EventLoopServer::BeginStop() {
  stopping_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  const std::vector<std::shared_ptr<Connection>> open(connections_.begin(), connections_.end());
  for (const auto& connection : open) connection->CloseWhenAnswered();
  After(options_.stop_ms, [this] { CloseAll(); });
  EndWhenEmpty();
}

void EventLoopServer::CloseAll() {
  const std::vector<std::shared_ptr<Connection>> open(connections_.begin(), connections_.end());
  for (const auto& connection : open) connection->CloseNow();
}

void EventLoopServer::EndWhenEmpty() {
  if (!stopping_ || !connections_.empty()) return;
  // Behind the OnClosed calls that are already posted.
  asio::post(loop_, [this] { loop_.stop(); });
}

std::string_view EventLoopServer::DateHeader() {
  const int64_t second = clock_.UnixSeconds();
  if (second != date_second_) {
    date_second_ = second;
    const std::time_t time = second;
    std::tm utc = {};
    gmtime_r(&time, &utc);
    char text[64];
    const size_t size =
        std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
    date_header_.assign(text, size);
  }
  return date_header_;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Create(const HttpServerOptions& options,
                                                       HttpHandler& handler) {
  auto server = std::make_unique<EventLoopServer>(options, handler);
  REM_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace remontoir
