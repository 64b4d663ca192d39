// One pass over the text; a column is found by its name.
#include "predictor/arrival_log.h"

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <optional>

#include "base/mapped_file.h"

namespace remontoir {
namespace {

constexpr int64_t kTimeUsMax = int64_t{1} << 53;  // 285 years; what JSON's readers hold exactly
constexpr int64_t kTokensMax = 1 << 30;

enum Field { kTime, kPrompt, kOutput, kCell, kClient, kDevice, kFieldCount };

struct FieldRule {
  std::string_view name;
  int64_t max;
  bool required;
};

constexpr std::array<FieldRule, kFieldCount> kFields = {{
    {"t_us", kTimeUsMax, true},
    {"prompt_tokens", kTokensMax, true},
    {"output_tokens", kTokensMax, true},
    {"client_cell", kClientCells - 1, false},
    {"client", kTokensMax, false},
    {"device", kDeviceClasses - 1, false},
}};

using Row = std::array<std::optional<int64_t>, kFieldCount>;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<int> FieldOf(std::string_view name) {
  for (int field = 0; field < kFieldCount; ++field) {
    if (kFields[static_cast<size_t>(field)].name == name) return field;
  }
  return std::nullopt;
}

Status WantsNumber(const FieldRule& rule) {
  return InvalidArgument(std::string(rule.name) + " wants a whole number of 0 to " +
                         std::to_string(rule.max));
}

Status PutNumber(int64_t value, size_t field, Row& row) {
  if (value < 0 || value > kFields[field].max) return WantsNumber(kFields[field]);
  row[field] = value;
  return Status::Ok();
}

// Calls `take(column, cell)` for every cell of a CSV line.
template <class Take>
Status EachCell(std::string_view line, const Take& take) {
  for (size_t column = 0;; ++column) {
    const size_t comma = line.find(',');
    REM_RETURN_IF_ERROR(take(column, Trimmed(line.substr(0, comma))));
    if (comma == std::string_view::npos) return Status::Ok();
    line.remove_prefix(comma + 1);
  }
}

class CsvRows {
 public:
  Status ReadHeader(std::string_view line) {
    return EachCell(line, [this](size_t, std::string_view cell) {
      const std::optional<int> field = FieldOf(cell);
      for (const std::optional<int>& other : columns_) {
        if (field && other == field) return InvalidArgument(std::string(cell) + " stands twice");
      }
      columns_.push_back(field);
      return Status::Ok();
    });
  }

  Status Read(std::string_view line, Row& row) const {
    return EachCell(line, [&](size_t column, std::string_view cell) {
      if (column >= columns_.size()) return InvalidArgument("more cells than columns");
      if (!columns_[column] || cell.empty()) return Status::Ok();
      const auto field = static_cast<size_t>(*columns_[column]);
      int64_t value = 0;
      const auto [end, error] = std::from_chars(cell.begin(), cell.end(), value);
      if (error != std::errc() || end != cell.end()) return WantsNumber(kFields[field]);
      return PutNumber(value, field, row);
    });
  }

 private:
  std::vector<std::optional<int>> columns_;
};

Status ReadJson(std::string_view line, Row& row) {
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(line, error);
  if (error || !value.is_object()) return InvalidArgument("is no JSON object");
  for (const auto& [key, item] : value.get_object()) {
    const std::optional<int> field = FieldOf(key);
    if (!field || item.is_null()) continue;
    const auto at = static_cast<size_t>(*field);
    if (!item.is_int64()) return WantsNumber(kFields[at]);
    REM_RETURN_IF_ERROR(PutNumber(item.get_int64(), at, row));
  }
  return Status::Ok();
}

Status Append(const Row& row, ArrivalLog& log) {
  for (size_t field = 0; field < kFieldCount; ++field) {
    if (kFields[field].required && !row[field]) {
      return InvalidArgument("has no " + std::string(kFields[field].name));
    }
  }
  LoggedArrival arrival;
  arrival.t_us = *row[kTime];
  arrival.prompt_tokens = static_cast<int32_t>(*row[kPrompt]);
  arrival.output_tokens = static_cast<int32_t>(*row[kOutput]);
  if (row[kCell] || row[kClient]) {
    arrival.client_cell =
        static_cast<int32_t>(row[kCell] ? *row[kCell] : *row[kClient] % kClientCells);
    log.has_clients = true;
  }
  if (row[kDevice]) {
    arrival.device = static_cast<int32_t>(*row[kDevice]);
    log.has_devices = true;
  }
  if (!log.arrivals.empty() && arrival.t_us < log.arrivals.back().t_us) {
    return InvalidArgument("t_us is less than in the line before: a log is sorted by time");
  }
  log.arrivals.push_back(arrival);
  return Status::Ok();
}

}  // namespace

Result<ArrivalLog> ParseArrivalLog(std::string_view text, const std::string& name) {
  ArrivalLog log;
  CsvRows csv;
  bool header_read = false;
  bool json = false;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    const std::string where = name + ", line " + std::to_string(number);
    if (!header_read) {
      header_read = true;
      json = line.front() == '{';
      if (!json) {
        REM_RETURN_IF_ERROR(csv.ReadHeader(line).WithContext(where));
        continue;
      }
    }
    Row row;
    REM_RETURN_IF_ERROR((json ? ReadJson(line, row) : csv.Read(line, row)).WithContext(where));
    REM_RETURN_IF_ERROR(Append(row, log).WithContext(where));
  }
  if (log.arrivals.empty()) {
    return InvalidArgument(name +
                           ": no arrivals; it wants t_us, prompt_tokens and output_tokens, "
                           "as CSV with a line of names first, or as JSON lines");
  }
  return log;
}

Result<ArrivalLog> ReadArrivalLog(const std::string& path) {
  REM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const auto bytes = file.bytes();
  return ParseArrivalLog({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace remontoir
