// Boost.Beast's response parser with a body that is taken out as it comes.
#include "loadgen/response_reader.h"

// First: the settings of Asio must be the same in every unit.
#include "http/asio.h"

#include <boost/beast/http/parser.hpp>
#include <utility>

#include "base/check.h"
#include "http/growing_body.h"

namespace remontoir {
namespace {

namespace beast_http = boost::beast::http;
using boost::system::error_code;

Status Malformed(const error_code& error) {
  return InvalidArgument("malformed HTTP response: " + error.message());
}

}  // namespace

struct ResponseReader::Impl {
  beast_http::response_parser<GrowingBody> parser;
};

ResponseReader::ResponseReader(size_t header_bytes_max, size_t body_bytes_max)
    : impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(static_cast<uint32_t>(header_bytes_max));
  impl_->parser.body_limit(body_bytes_max);
  impl_->parser.eager(true);
}

ResponseReader::~ResponseReader() = default;

Status ResponseReader::Feed(std::string_view bytes) {
  inbox_ += bytes;
  while (!inbox_.empty() && !is_done()) {
    error_code error;
    const size_t taken =
        impl_->parser.put(boost::asio::const_buffer(inbox_.data(), inbox_.size()), error);
    inbox_.erase(0, taken);
    if (error == beast_http::error::need_more) break;
    if (error) return Malformed(error);
    if (taken == 0) break;
  }
  return Status::Ok();
}

Status ResponseReader::FeedEnd() {
  if (is_done()) return Status::Ok();
  if (!has_head()) return IoError("closed before the reply's head");
  error_code error;
  impl_->parser.put_eof(error);
  return error ? IoError("closed within the reply") : Status::Ok();
}

bool ResponseReader::has_head() const { return impl_->parser.is_header_done(); }

bool ResponseReader::is_done() const { return impl_->parser.is_done(); }

int ResponseReader::status() const {
  REM_CHECK(has_head(), "no head yet");
  return static_cast<int>(impl_->parser.get().result_int());
}

std::optional<std::string> ResponseReader::Header(std::string_view name) const {
  REM_CHECK(has_head(), "no head yet");
  const auto& fields = impl_->parser.get();
  const auto found = fields.find(boost::beast::string_view(name.data(), name.size()));
  if (found == fields.end()) return std::nullopt;
  return std::string(found->value().data(), found->value().size());
}

std::string ResponseReader::TakeBody() { return std::exchange(impl_->parser.get().body(), {}); }

}  // namespace remontoir
