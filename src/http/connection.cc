// The read loop, the parser's steps and the write queue of one connection.
#include "http/connection.h"

#include <poll.h>

#include <array>

#include "base/check.h"

namespace remontoir {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int64_t kDrainMs = 2000;
constexpr size_t kDrainBytesMax = 4 << 20;
constexpr auto kLeftCheckPeriod = std::chrono::milliseconds(50);

// The peer has ended or reset its side, as seen without reading.
bool PeerLeft(int descriptor) {
  pollfd state = {descriptor, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// A field may not break out of its line.
void AppendField(std::string& head, std::string_view name, std::string_view value) {
  const auto append_printable = [&head](std::string_view text) {
    for (const char c : text) head += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? ' ' : c;
  };
  append_printable(name);
  head += ": ";
  append_printable(value);
  head += "\r\n";
}

}  // namespace

Connection::Connection(ConnectionHost& host, asio::ip::tcp::socket socket)
    : host_(host),
      socket_(std::move(socket)),
      room_(socket_.get_executor()),
      parser_(host.options().header_bytes_max, host.options().body_bytes_max) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  const auto peer = socket_.remote_endpoint(ignored);
  if (!ignored) peer_ = peer.address().to_string();
  SetDeadline(host_.options().idle_ms);
}

void Connection::Start() {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->ReadLoop(); },
      asio::detached);
}

void Connection::Refuse() {
  Start();
  AnswerRefusal(503, "too many connections");
}

asio::awaitable<void> Connection::ReadLoop() {
  const auto self = shared_from_this();
  while (phase_ != Phase::kClosed) {
    if (!co_await AwaitRoom()) break;
    const auto [waited] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_read,
                                                      asio::as_tuple(asio::use_awaitable));
    if (waited || phase_ == Phase::kClosed) break;
    const std::span<char> buffer = host_.ReadBuffer();
    error_code error;
    const size_t size = socket_.read_some(asio::buffer(buffer.data(), buffer.size()), error);
    if (error == asio::error::would_block) continue;
    if (error == asio::error::eof && !exchange_ && pending_bytes() > 0) {
      // All is answered: the client may still read what is on its way.
      peer_ended_ = true;
      BeginDraining();
      co_return;
    }
    if (error) break;
    if (phase_ == Phase::kDraining) {
      drained_bytes_ += size;
      if (drained_bytes_ > kDrainBytesMax) break;
      continue;
    }
    inbox_.append(buffer.data(), size);
    ParseInbox();
  }
  CloseNow();
}

asio::awaitable<bool> Connection::AwaitRoom() {
  while (phase_ == Phase::kServing && inbox_.size() >= host_.options().read_ahead_bytes_max &&
         (exchange_ || pending_bytes() > 0)) {
    if (PeerLeft(socket_.native_handle())) co_return false;
    room_.expires_after(kLeftCheckPeriod);
    co_await room_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return phase_ != Phase::kClosed;
}

void Connection::ParseInbox() {
  // One request at a time, and its answer taken by the system before the next.
  if (phase_ != Phase::kServing || exchange_ || pending_bytes() > 0) return;
  if (inbox_.empty()) return;
  if (!request_begun_) {
    request_begun_ = true;
    SetDeadline(host_.options().request_read_ms);
  }
  inbox_.erase(0, parser_.Feed(inbox_));
  switch (parser_.state()) {
    case RequestParser::State::kFailed:
      AnswerRefusal(parser_.failure_status(), parser_.failure_reason());
      break;
    case RequestParser::State::kComplete: BeginExchange(parser_.Take()); break;
    case RequestParser::State::kReading:
      if (!continue_sent_ && parser_.expects_continue()) {
        continue_sent_ = true;
        Send("HTTP/1.1 100 Continue\r\n\r\n");
      }
      break;
  }
}

void Connection::BeginExchange(HttpRequest request) {
  request_begun_ = false;
  continue_sent_ = false;
  keep_alive_ = keep_alive_ && request.keep_alive;
  request.peer = peer_;
  exchange_ =
      std::make_shared<ConnectionExchange>(*this, host_.NextExchangeId(), std::move(request));
  host_.handler().OnRequest(exchange_);
}

void Connection::AnswerRefusal(int status, std::string_view reason) {
  const HttpResponse response = host_.handler().Refusal(status, reason);
  keep_alive_ = false;
  SendHead(response.status, response.content_type, response.headers,
           "Content-Length: " + std::to_string(response.body.size()) + "\r\n");
  Send(response.body);
  BeginDraining();
}

void Connection::SendHead(int status, std::string_view content_type, const HttpHeaders& headers,
                          std::string_view framing) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head += ReasonPhrase(status);
  head += "\r\n";
  head += host_.DateHeader();
  for (const auto& [name, value] : headers) AppendField(head, name, value);
  if (!content_type.empty()) AppendField(head, "Content-Type", content_type);
  head += framing;
  head += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  Send(head);
}

void Connection::Send(std::string_view bytes) {
  if (phase_ == Phase::kClosed || bytes.empty()) return;
  if (pending_bytes() == 0) SetDeadline(host_.options().write_stall_ms);
  queued_ += bytes;
  // From the loop, so that what one task writes in pieces leaves as one.
  if (!writing_) {
    writing_ = true;
    host_.PostOnLoop([self = shared_from_this()] {
      self->writing_ = false;
      self->Flush();
    });
  }
}

void Connection::Flush() {
  if (writing_ || phase_ == Phase::kClosed) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    sending_.swap(queued_);
  }
  if (sending_.empty()) return OnFlushed();
  writing_ = true;
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](const error_code& error, size_t size) {
                             self->writing_ = false;
                             if (error) return self->CloseNow();
                             self->sent_ += size;
                             self->SetDeadline(self->host_.options().write_stall_ms);
                             self->Flush();
                           });
}

void Connection::OnFlushed() {
  if (phase_ == Phase::kDraining) {
    if (peer_ended_) return CloseNow();
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    SetDeadline(kDrainMs);
    return;
  }
  if (exchange_) return;
  SetDeadline(request_begun_ ? host_.options().request_read_ms : host_.options().idle_ms);
  ParseInbox();
  room_.cancel();
}

void Connection::EndExchange() {
  exchange_.reset();
  if (!keep_alive_) return BeginDraining();
  if (pending_bytes() == 0 && !writing_) {
    // Nothing was left to write: go on from the loop, not from inside the handler.
    writing_ = true;
    host_.PostOnLoop([self = shared_from_this()] {
      self->writing_ = false;
      self->Flush();
    });
  }
}

void Connection::BeginDraining() {
  if (phase_ != Phase::kServing) return;
  phase_ = Phase::kDraining;
  inbox_.clear();
  room_.cancel();
  if (pending_bytes() == 0 && !writing_) OnFlushed();
}

void Connection::CloseWhenAnswered() {
  keep_alive_ = false;
  if (phase_ == Phase::kServing && !exchange_) {
    if (pending_bytes() == 0) return CloseNow();
    BeginDraining();
  }
}

void Connection::CloseNow() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  phase_ = Phase::kClosed;
  error_code ignored;
  socket_.close(ignored);
  room_.cancel();
  if (exchange_) {
    exchange_->Detach();
    host_.PostOnLoop([&host = host_, id = exchange_->id()] { host.handler().OnClosed(id); });
    exchange_.reset();
  }
  host_.Forget(self);
}

void Connection::CheckDeadline() {
  const bool waits_for_handler = exchange_ && pending_bytes() == 0;
  if (phase_ == Phase::kClosed || waits_for_handler || host_.Now().us < deadline_us_) return;
  const bool reading_request = phase_ == Phase::kServing && request_begun_ && pending_bytes() == 0;
  if (reading_request) return AnswerRefusal(408, "the request did not arrive in time");
  CloseNow();
}

void ConnectionExchange::Respond(HttpResponse response) {
  if (closed()) return;
  REM_CHECK(!streaming_, "a stream has begun: Write and Finish");
  const bool bodiless = response.status == 204 || response.status == 304;
  connection_->SendHead(
      response.status, bodiless ? "" : response.content_type, response.headers,
      bodiless ? "" : "Content-Length: " + std::to_string(response.body.size()) + "\r\n");
  if (!head_only() && !bodiless) connection_->Send(response.body);
  std::exchange(connection_, nullptr)->EndExchange();
}

void ConnectionExchange::StartStream(int status, std::string_view content_type,
                                     HttpHeaders headers) {
  if (closed()) return;
  REM_CHECK(!streaming_, "StartStream comes once");
  streaming_ = true;
  if (!chunked()) connection_->keep_alive_ = false;
  connection_->SendHead(status, content_type, headers,
                        chunked() ? "Transfer-Encoding: chunked\r\n" : "");
}

void ConnectionExchange::Write(std::string_view bytes) {
  if (closed() || bytes.empty() || head_only()) return;
  REM_CHECK(streaming_, "StartStream comes first");
  if (pending_bytes() + bytes.size() > connection_->host_.options().stream_pending_bytes_max) {
    return connection_->CloseNow();
  }
  if (!chunked()) return connection_->Send(bytes);
  std::array<char, 24> size_line;
  const int length = std::snprintf(size_line.data(), size_line.size(), "%zx\r\n", bytes.size());
  connection_->Send({size_line.data(), static_cast<size_t>(length)});
  connection_->Send(bytes);
  connection_->Send("\r\n");
}

void ConnectionExchange::Finish() {
  if (closed()) return;
  REM_CHECK(streaming_, "StartStream comes first");
  if (chunked() && !head_only()) connection_->Send("0\r\n\r\n");
  std::exchange(connection_, nullptr)->EndExchange();
}

size_t ConnectionExchange::pending_bytes() const {
  return connection_ == nullptr ? 0 : connection_->pending_bytes();
}

}  // namespace remontoir
