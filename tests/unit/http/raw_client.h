// A client made of a bare socket, and a server on a thread of its own, for the tests of this
// folder.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "http/http_server.h"

namespace remontoir {

inline constexpr int kWaitMs = 10'000;  // a bound for what must happen, never a pause

// Blocks with a bound; a failure shows as missing bytes.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // The next close sends a reset instead of an end.
  void ResetOnClose() {
    const linger now = {1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  void EndSending() { ::shutdown(socket_, SHUT_WR); }

  // Sends all, or as much as the server takes within the bound.
  void Send(std::string_view bytes) {
    while (!bytes.empty() && Ready(POLLOUT)) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // Everything up to and with `end`, or up to the server's end when that comes first.
  std::string ReadThrough(std::string_view end) {
    size_t at;
    while ((at = buffer_.find(end)) == std::string::npos && Fill()) {
    }
    return Take(at == std::string::npos ? buffer_.size() : at + end.size());
  }
  std::string ReadBytes(size_t size) {
    while (buffer_.size() < size && Fill()) {
    }
    return Take(std::min(size, buffer_.size()));
  }
  // Whatever comes until the server ends the connection.
  std::string ReadToEnd() {
    while (Fill()) {
    }
    return Take(buffer_.size());
  }
  bool ended() const { return ended_; }

  // Something can be read now, be it the end.
  bool HasBytes() const {
    pollfd state = {socket_, POLLIN, 0};
    return !buffer_.empty() || poll(&state, 1, 0) > 0;
  }

  struct Response {
    std::string head;
    std::string body;
    int status() const { return head.size() > 12 ? std::atoi(head.c_str() + 9) : 0; }
    bool Has(std::string_view text) const { return head.find(text) != std::string::npos; }
  };
  // One answer, whole or chunked (then the chunks joined).
  Response ReadResponse() {
    Response response;
    response.head = ReadThrough("\r\n\r\n");
    if (response.Has("Transfer-Encoding: chunked")) {
      while (true) {
        const size_t size = std::strtoul(ReadThrough("\r\n").c_str(), nullptr, 16);
        response.body += ReadBytes(size);
        if (ReadThrough("\r\n").empty() || size == 0) break;
      }
      return response;
    }
    const size_t at = response.head.find("Content-Length: ");
    if (at != std::string::npos) {
      response.body = ReadBytes(std::strtoul(response.head.c_str() + at + 16, nullptr, 10));
    }
    return response;
  }

 private:
  bool Ready(short events) {
    pollfd state = {socket_, events, 0};
    return poll(&state, 1, kWaitMs) > 0;
  }
  bool Fill() {
    char chunk[16384];
    if (ended_ || !Ready(POLLIN)) return false;
    const ssize_t size = ::recv(socket_, chunk, sizeof chunk, 0);
    if (size <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(chunk, static_cast<size_t>(size));
    return true;
  }
  std::string Take(size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

// Answers by path: /echo at once, /stream in pieces "0;" ... "9;", /hold never by itself.
class ScriptedHandler : public HttpHandler {
 public:
  void OnRequest(std::shared_ptr<HttpExchange> exchange) override {
    const HttpRequest& request = exchange->request();
    if (request.path == "/stream") {
      exchange->StartStream(200, "text/event-stream", {{"X-Piece", "yes"}});
      for (int i = 0; i < 10; ++i) exchange->Write(std::to_string(i) + ";");
      return exchange->Finish();
    }
    if (request.path == "/hold" || request.path == "/hold-stream") {
      if (request.path == "/hold-stream") exchange->StartStream(200, "text/event-stream", {});
      const std::lock_guard lock(mutex_);
      held_[exchange->id()] = std::move(exchange);
      changed_.notify_all();
      return;
    }
    HttpResponse response;
    response.content_type = "text/plain";
    response.headers.Add("X-Peer", request.peer);
    response.body = request.method + " " + request.path + "?" + request.query + " " + request.body;
    exchange->Respond(std::move(response));
  }

  void OnClosed(uint64_t exchange_id) override {
    const std::lock_guard lock(mutex_);
    closed_.insert(exchange_id);
    changed_.notify_all();
  }

  bool AwaitHeld(size_t count) {
    return Await([this, count] { return held_.size() >= count; });
  }
  bool AwaitClosed(size_t count) {
    return Await([this, count] { return closed_.size() >= count; });
  }
  // Used on the loop thread.
  std::map<uint64_t, std::shared_ptr<HttpExchange>> held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  template <class Condition>
  bool Await(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kWaitMs), condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<HttpExchange>> held_;
  std::set<uint64_t> closed_;
};

class ServerOnThread {
 public:
  explicit ServerOnThread(const HttpServerOptions& options = {}) {
    auto created = HttpServer::Create(options, handler_);
    EXPECT_TRUE(created.ok()) << created.status().message();
    server_ = std::move(created).value();
    thread_ = std::thread([this] { server_->Run(); });
  }
  ~ServerOnThread() {
    server_->Stop();
    server_->Stop();
    thread_.join();
  }

  int port() const { return server_->port(); }
  HttpServer& server() { return *server_; }
  ScriptedHandler& handler() { return handler_; }

  // Runs `task` on the loop and waits for it.
  void OnLoop(std::function<void()> task) {
    std::promise<void> done;
    server_->Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  ScriptedHandler handler_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace remontoir
