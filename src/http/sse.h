// Server-sent events: the framing of one event of a text/event-stream.
#pragma once

#include <string>
#include <string_view>

namespace remontoir {

inline constexpr std::string_view kSseContentType = "text/event-stream";

// One event with `data` as its payload; a line break in `data` starts a further data line, so that
// the receiver gets the same text back.
inline std::string SseEvent(std::string_view data) {
  std::string event;
  event.reserve(data.size() + 8);
  event += "data: ";
  for (const char c : data) {
    event += c;
    if (c == '\n') event += "data: ";
  }
  event += "\n\n";
  return event;
}

}  // namespace remontoir
