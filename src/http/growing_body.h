// A body for Boost.Beast's parsers; included by the units that parse, after http/asio.h.
#pragma once

#include "http/asio.h"
// After the settings of asio.h.
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <string>

namespace remontoir {

// http::string_body asks for Content-Length bytes at once; this one grows with what really came.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(boost::beast::http::header<kIsRequest, Fields>&, value_type& body) : body_(body) {}

    template <class Length>
    void init(const Length&, boost::system::error_code& error) {
      error = {};
    }

    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      size_t size = 0;
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        size += buffer.size();
      }
      error = {};
      return size;
    }

    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

}  // namespace remontoir
