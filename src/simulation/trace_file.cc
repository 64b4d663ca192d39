// A line at a time, numbers by from_chars: nothing in a file is trusted.
#include "simulation/trace_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace remontoir {
namespace {

constexpr std::string_view kHeader = "t_us,prompt_tokens,output_tokens";
constexpr std::uintmax_t kFileBytesMax = std::uintmax_t{1} << 30;

// Takes a whole number from 0 to max and the comma behind it, if there is one.
Result<int64_t> TakeNumber(std::string_view& line, const char* column, int64_t max) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  const size_t taken = static_cast<size_t>(end - line.data());
  const bool whole = taken == line.size() || line[taken] == ',';
  if (error != std::errc() || !whole || number < 0 || number > max) {
    return InvalidArgument(std::string(column) + ": wants a whole number from 0 to " +
                           std::to_string(max));
  }
  line.remove_prefix(std::min(taken + 1, line.size()));
  return number;
}

Result<Arrival> ParseRow(std::string_view line) {
  REM_ASSIGN_OR_RETURN(const int64_t t_us, TakeNumber(line, "t_us", kTraceUsMax));
  REM_ASSIGN_OR_RETURN(const int64_t prompt, TakeNumber(line, "prompt_tokens", kTraceTokensMax));
  REM_ASSIGN_OR_RETURN(const int64_t output, TakeNumber(line, "output_tokens", kTraceTokensMax));
  return Arrival{.t_us = t_us,
                 .prompt_tokens = std::max(1, static_cast<int32_t>(prompt)),
                 .output_tokens = std::max(1, static_cast<int32_t>(output))};
}

std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<std::vector<Arrival>> ParseTrace(std::string_view text, const std::string& name) {
  const std::string_view header = TakeLine(text);
  if (header != kHeader && !header.starts_with(std::string(kHeader) + ",")) {
    return InvalidArgument(name + ":1: wants a header that begins with " + std::string(kHeader));
  }
  std::vector<Arrival> arrivals;
  for (size_t number = 2; !text.empty(); ++number) {
    const std::string_view line = TakeLine(text);
    const std::string place = name + ":" + std::to_string(number);
    if (line.empty()) continue;
    Result<Arrival> row = ParseRow(line);
    if (!row.ok()) return row.status().WithContext(place);
    if (!arrivals.empty() && row->t_us < arrivals.back().t_us) {
      return InvalidArgument(place + ": t_us: is before the row above");
    }
    if (arrivals.size() == kTraceRowsMax) {
      return InvalidArgument(place + ": more than " + std::to_string(kTraceRowsMax) + " rows");
    }
    arrivals.push_back(*row);
  }
  if (arrivals.empty()) return InvalidArgument(name + ": holds no request");
  return arrivals;
}

Result<std::vector<Arrival>> ReadTrace(const std::string& path) {
  if (path.ends_with(".xz")) {
    return Unsupported(path + ": unpack it first: xz -dk " + path);
  }
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return NotFound(path + ": can't be opened");
  if (bytes > kFileBytesMax) return InvalidArgument(path + ": is larger than 1 GiB");
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(bytes), '\0');
  if (!file || !file.read(text.data(), static_cast<std::streamsize>(bytes))) {
    return IoError(path + ": can't be read");
  }
  return ParseTrace(text, path);
}

}  // namespace remontoir
