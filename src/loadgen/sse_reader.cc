// Lines end in CR, LF or both; an empty one ends the event.
#include "loadgen/sse_reader.h"

#include <utility>

namespace remontoir {

void SseReader::EndLine(std::vector<std::string>& events) {
  constexpr std::string_view kData = "data";
  const std::string_view line = line_;
  if (line.empty()) {
    if (has_data_) events.push_back(std::exchange(data_, {}));
    has_data_ = false;
    return;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) == kData) {
    std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

Status SseReader::Feed(std::string_view bytes, std::vector<std::string>& events) {
  for (const char c : bytes) {
    if (c == '\n' && std::exchange(after_return_, false)) continue;
    after_return_ = c == '\r';
    if (c == '\n' || c == '\r') {
      EndLine(events);
      continue;
    }
    if (line_.size() + data_.size() >= event_bytes_max_) {
      return ResourceExhausted("an event of more than " + std::to_string(event_bytes_max_) +
                               " bytes");
    }
    line_ += c;
  }
  return Status::Ok();
}

}  // namespace remontoir
