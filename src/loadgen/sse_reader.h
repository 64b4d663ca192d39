// The receiving side of server-sent events: bytes in any pieces in, the data of whole events out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

class SseReader {
 public:
  // An event of more bytes than this is an error.
  explicit SseReader(size_t event_bytes_max) : event_bytes_max_(event_bytes_max) {}

  // Appends the data of every event that these bytes end to `events`; lines of one event are joined
  // by a line feed, comments and other fields left out. After an error nothing more may be fed.
  Status Feed(std::string_view bytes, std::vector<std::string>& events);

 private:
  void EndLine(std::vector<std::string>& events);

  const size_t event_bytes_max_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed belongs to the line end before it
};

}  // namespace remontoir
