// One client's connection: reads requests ahead, writes answers in order, notices when it ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/asio.h"
#include "http/http_server.h"
#include "http/request_parser.h"

namespace remontoir {

class Connection;
class ConnectionExchange;

// What a connection needs of its server. Loop thread only, like everything here.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  virtual const HttpServerOptions& options() const = 0;
  virtual HttpHandler& handler() = 0;
  virtual uint64_t NextExchangeId() = 0;
  virtual TimePoint Now() const = 0;
  virtual std::string_view DateHeader() = 0;  // "Date: ...\r\n"
  // One for all connections: what is in it is used before the next read.
  virtual std::span<char> ReadBuffer() = 0;
  virtual void PostOnLoop(std::function<void()> task) = 0;
  virtual void Forget(const std::shared_ptr<Connection>& connection) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHost& host, boost::asio::ip::tcp::socket socket);

  // Reads until the client leaves or an answer closes.
  void Start();
  // Answers 503 without reading a request, then closes.
  void Refuse();

  // No further request: closes now when idle, else after the running answer.
  void CloseWhenAnswered();
  void CloseNow();

  // Closes or answers 408 when the deadline of the present phase has passed.
  void CheckDeadline();

 private:
  friend class ConnectionExchange;

  enum class Phase { kServing, kDraining, kClosed };

  boost::asio::awaitable<void> ReadLoop();
  // Waits until there is room to read ahead; false when the client left meanwhile.
  boost::asio::awaitable<bool> AwaitRoom();
  void ParseInbox();
  void BeginExchange(HttpRequest request);
  void AnswerRefusal(int status, std::string_view reason);

  // From the exchange.
  void SendHead(int status, std::string_view content_type, const HttpHeaders& headers,
                std::string_view framing);
  void Send(std::string_view bytes);
  void EndExchange();
  size_t pending_bytes() const { return sending_.size() - sent_ + queued_.size(); }

  void Flush();
  void OnFlushed();
  // Sends what is left, then waits for the client's end so that it can read the answer.
  void BeginDraining();
  void SetDeadline(int64_t after_ms) { deadline_us_ = host_.Now().us + after_ms * 1000; }

  ConnectionHost& host_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer room_;  // cancelled when reading may go on
  RequestParser parser_;
  std::string peer_;     // address of the client
  std::string inbox_;    // read, not yet parsed
  std::string sending_;  // handed to the system up to sent_
  size_t sent_ = 0;
  std::string queued_;  // goes out after sending_
  bool writing_ = false;
  bool keep_alive_ = true;
  bool continue_sent_ = false;
  bool request_begun_ = false;  // a byte of the next request is there
  bool peer_ended_ = false;     // no byte will come any more
  Phase phase_ = Phase::kServing;
  int64_t deadline_us_ = 0;
  size_t drained_bytes_ = 0;
  std::shared_ptr<ConnectionExchange> exchange_;  // the one being answered
};

// The exchange of a connection; outlives it when the handler holds it longer.
class ConnectionExchange final : public HttpExchange {
 public:
  ConnectionExchange(Connection& connection, uint64_t id, HttpRequest request)
      : connection_(&connection), id_(id), request_(std::move(request)) {}

  uint64_t id() const override { return id_; }
  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override;
  void StartStream(int status, std::string_view content_type, HttpHeaders headers) override;
  void Write(std::string_view bytes) override;
  void Finish() override;
  size_t pending_bytes() const override;
  bool closed() const override { return connection_ == nullptr; }

  // Nobody will read the rest.
  void Detach() { connection_ = nullptr; }

 private:
  bool chunked() const { return request_.minor_version >= 1; }
  bool head_only() const { return request_.method == "HEAD"; }

  Connection* connection_;  // null once the answer is complete or the client gone
  const uint64_t id_;
  const HttpRequest request_;
  bool streaming_ = false;
};

}  // namespace remontoir
