// What travels over HTTP/1.1: a request as it was read, a response as it will be written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace remontoir {

// Fields in the order in which they came; names compare without regard to ASCII case.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields)
      : fields_(fields) {}

  void Add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // The first field of that name.
  std::optional<std::string_view> Find(std::string_view name) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  size_t size() const { return fields_.size(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;     // as sent: "GET", "POST", ...
  std::string path;       // target before '?', still percent-encoded; starts with '/' (or is "*")
  std::string query;      // target after '?', without it
  int minor_version = 1;  // HTTP/1.<minor_version>: 0 or 1
  bool keep_alive = true;
  HttpHeaders headers;
  std::string body;
  std::string peer;  // the client's address, without its port; empty: it has left
};

struct HttpResponse {
  int status = 200;
  // Content-Type, Content-Length, Connection and Date are added by the server.
  HttpHeaders headers;
  std::string content_type = "application/json";
  std::string body;
};

// "Not Found" for 404; "Unknown" for a status without a name here.
std::string_view ReasonPhrase(int status);

// Replaces %XX by its byte; a '%' without two hex digits stays as it is.
std::string PercentDecode(std::string_view text);

bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace remontoir
