// A hub made of bare sockets on a thread of its own, which misbehaves as it is told.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hub/ascii.h"

namespace remontoir {

struct SeenRequest {
  std::string path;                            // with its query
  std::map<std::string, std::string> headers;  // names in lower case

  std::string Header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
  // The first byte of its Range, or 0.
  size_t Offset() const {
    const std::string range = Header("range");
    return range.empty() ? 0 : std::stoul(range.substr(range.find('=') + 1));
  }
};

// What is sent back, byte for byte; then the connection ends.
struct RawAnswer {
  std::string bytes;
  bool hold = false;  // stays open, silent, until the client or the server goes
};

// "HTTP/1.1 200 OK" and headers, with the Content-Length that is given, or none.
inline std::string Head(int status, const std::vector<std::string>& headers,
                        long content_length = -1) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " X\r\nConnection: close\r\n";
  for (const std::string& header : headers) head += header + "\r\n";
  if (content_length >= 0) head += "Content-Length: " + std::to_string(content_length) + "\r\n";
  return head + "\r\n";
}

inline RawAnswer Answer(int status, const std::vector<std::string>& headers,
                        const std::string& body = "") {
  return {Head(status, headers, static_cast<long>(body.size())) + body};
}

class LoopbackServer {
 public:
  using Handler = std::function<RawAnswer(const SeenRequest&)>;

  explicit LoopbackServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~LoopbackServer() {
    stop_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::vector<SeenRequest> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  // One connection at a time: what is tested asks one question at a time.
  void Serve() {
    while (!stop_) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      if (const auto request = Read(connection); !request.path.empty()) {
        {
          const std::lock_guard lock(mutex_);
          seen_.push_back(request);
        }
        Send(connection, handler_(request));
      }
      ::close(connection);
    }
  }

  static SeenRequest Read(int connection) {
    std::string text;
    char block[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::recv(connection, block, sizeof block, 0);
      if (count <= 0) return {};
      text.append(block, static_cast<size_t>(count));
    }
    SeenRequest request;
    const size_t path = text.find(' ') + 1;
    request.path = text.substr(path, text.find(' ', path) - path);
    for (size_t line = text.find("\r\n") + 2; text.compare(line, 2, "\r\n") != 0;) {
      const size_t end = text.find("\r\n", line);
      const size_t colon = text.find(':', line);
      request.headers[AsciiLower(text.substr(line, colon - line))] =
          TrimAscii(text.substr(colon + 1, end - colon - 1));
      line = end + 2;
    }
    return request;
  }

  void Send(int connection, const RawAnswer& answer) const {
    std::string_view rest = answer.bytes;
    while (!rest.empty()) {
      const ssize_t sent = ::send(connection, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      rest.remove_prefix(static_cast<size_t>(sent));
    }
    pollfd gone = {connection, POLLIN, 0};
    while (answer.hold && !stop_ && ::poll(&gone, 1, 20) == 0) {
    }
  }

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<SeenRequest> seen_;
  std::thread thread_;
};

}  // namespace remontoir
