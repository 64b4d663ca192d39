// Boost.Beast's request parser with a body that never reserves what a header only claims.
#include "http/request_parser.h"

// First: the settings of Asio must be the same in every unit.
#include "http/asio.h"

#include <boost/beast/http/parser.hpp>

#include "base/check.h"
#include "http/growing_body.h"

namespace remontoir {
namespace {

namespace beast_http = boost::beast::http;
using boost::system::error_code;

std::string ToString(boost::beast::string_view text) { return {text.data(), text.size()}; }

// origin-form "/path?query", absolute-form "http://host/path?query" or "*".
void SplitTarget(std::string_view target, HttpRequest& request) {
  if (const size_t scheme = target.find("://");
      !target.starts_with('/') && scheme != std::string_view::npos) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
}

}  // namespace

struct RequestParser::Impl {
  beast_http::request_parser<GrowingBody> parser;
};

RequestParser::RequestParser(size_t header_bytes_max, size_t body_bytes_max)
    : header_bytes_max_(header_bytes_max), body_bytes_max_(body_bytes_max) {
  Reset();
}

RequestParser::~RequestParser() = default;

void RequestParser::Reset() {
  impl_ = std::make_unique<Impl>();
  impl_->parser.header_limit(static_cast<uint32_t>(header_bytes_max_));
  impl_->parser.body_limit(body_bytes_max_);
  impl_->parser.eager(true);
  state_ = State::kReading;
}

void RequestParser::Fail(int status, std::string reason) {
  state_ = State::kFailed;
  failure_status_ = status;
  failure_reason_ = std::move(reason);
}

size_t RequestParser::Feed(std::string_view bytes) {
  if (state_ != State::kReading || bytes.empty()) return 0;
  error_code error;
  const size_t taken =
      impl_->parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == beast_http::error::header_limit) {
    Fail(431, "request header larger than " + std::to_string(header_bytes_max_) + " bytes");
  } else if (error == beast_http::error::body_limit) {
    Fail(413, "request body larger than " + std::to_string(body_bytes_max_) + " bytes");
  } else if (error == beast_http::error::bad_version) {
    Fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  } else if (error && error != beast_http::error::need_more) {
    Fail(400, "malformed HTTP request: " + error.message());
  } else if (impl_->parser.is_done()) {
    state_ = State::kComplete;
    const auto& message = impl_->parser.get();
    if (message.version() == 11 && message.count(beast_http::field::host) == 0) {
      Fail(400, "malformed HTTP request: no Host header");
    }
  }
  return taken;
}

bool RequestParser::has_header() const { return impl_->parser.is_header_done(); }

bool RequestParser::expects_continue() const {
  if (state_ != State::kReading || !has_header()) return false;
  const auto& message = impl_->parser.get();
  const auto expect = message[beast_http::field::expect];
  return message.version() == 11 &&
         EqualsIgnoreCase({expect.data(), expect.size()}, "100-continue");
}

HttpRequest RequestParser::Take() {
  REM_CHECK(state_ == State::kComplete, "no whole request to take");
  auto message = impl_->parser.release();
  HttpRequest request;
  request.method = ToString(message.method_string());
  SplitTarget(ToString(message.target()), request);
  request.minor_version = message.version() == 11 ? 1 : 0;
  request.keep_alive = message.keep_alive();
  for (const auto& field : message) {
    request.headers.Add(ToString(field.name_string()), ToString(field.value()));
  }
  request.body = std::move(message.body());
  Reset();
  return request;
}

}  // namespace remontoir
