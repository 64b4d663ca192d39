// Bytes in, one HTTP/1.x response out, its body piece by piece; Boost.Beast stays behind it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace remontoir {

class ResponseReader {
 public:
  // A head or a body of more bytes is an error.
  ResponseReader(size_t header_bytes_max, size_t body_bytes_max);
  ~ResponseReader();

  // Bytes in the order in which they came, in any pieces. Errors say what is malformed or too
  // large; then nothing more may be fed. Bytes after the response's end are left out.
  Status Feed(std::string_view bytes);
  // The sender has closed: the end of a body without a length, an error anywhere else.
  Status FeedEnd();

  bool has_head() const;
  bool is_done() const;

  // Once has_head().
  int status() const;
  std::optional<std::string> Header(std::string_view name) const;

  // What came of the body since the last call.
  std::string TakeBody();

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
  std::string inbox_;  // came, but isn't whole enough to be parsed
};

}  // namespace remontoir
