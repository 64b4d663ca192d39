// safetensors: 8 bytes of length, a JSON header, the tensors' bytes. Boost.JSON reads the header.
#include "predictor/trained_predictor.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "predictor/forecast.h"

namespace remontoir {
namespace {

constexpr const char* kFormat = "remontoir-lstm-v2";
constexpr uint64_t kHeaderBytesMax = 1 << 16;
constexpr double kParameterMax = 1e4;  // sums of so many of them stay finite

// A tensor of the file and where it lies in `parameters`.
struct TensorPlace {
  const char* name;
  size_t rows;
  size_t columns;  // 0: a vector
  size_t offset;
  bool transposed;  // [columns][rows] in memory

  size_t count() const { return rows * std::max<size_t>(columns, 1); }
  std::string ShapeText() const {
    return "[" + std::to_string(rows) + (columns > 0 ? "," + std::to_string(columns) : "") + "]";
  }
  size_t IndexInMemory(size_t row, size_t column) const {
    if (columns == 0) return offset + row;
    return offset + (transposed ? column * rows + row : row * columns + column);
  }
};

std::array<TensorPlace, 5> PlacesOf(const NetworkShape& shape) {
  const size_t gates = shape.gates();
  const size_t hidden = shape.state();
  return {{
      {"head.b", kOutputCount, 0, shape.head_bias(), false},
      {"head.w", kOutputCount, shape.head_inputs(), shape.head(), false},
      {"lstm.b", gates, 0, shape.cell_bias(), false},
      {"lstm.w_hh", gates, hidden, NetworkShape::cell() + kFeatureCount * gates, true},
      {"lstm.w_ih", gates, kFeatureCount, NetworkShape::cell(), true},
  }};
}

std::string NumberText(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string MaskText(const FeatureMask& mask) {
  std::string text;
  for (size_t i = 0; i < mask.size(); ++i) text += mask[i] ? '1' : '0';
  return text;
}

std::map<std::string, std::string> MetadataOf(const TrainedPredictor& model) {
  std::map<std::string, std::string> lines = model.notes;
  lines["format"] = kFormat;
  lines["tick_ms"] = std::to_string(model.tick_ms);
  lines["horizon_ms"] = std::to_string(kForecastHorizonMs);
  lines["tau_star"] = NumberText(kRateTausS[static_cast<size_t>(model.tau_index)]);
  lines["train_mean"] = NumberText(model.train_mean);
  lines["mask"] = MaskText(model.mask);
  return lines;
}

class Metadata {
 public:
  explicit Metadata(const std::map<std::string, std::string>& lines) : lines_(lines) {}

  Result<std::string> Text(const std::string& key) const {
    const auto found = lines_.find(key);
    if (found == lines_.end()) return InvalidArgument("metadata lacks " + key);
    return found->second;
  }

  Result<double> Number(const std::string& key) const {
    REM_ASSIGN_OR_RETURN(const std::string text, Text(key));
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      return InvalidArgument("metadata " + key + ": " + text.substr(0, 40) + " is no number");
    }
    return value;
  }

 private:
  const std::map<std::string, std::string>& lines_;
};

Status ReadMetadata(TrainedPredictor& model) {
  const Metadata metadata(model.notes);
  REM_ASSIGN_OR_RETURN(const std::string format, metadata.Text("format"));
  if (format != kFormat) {
    return InvalidArgument("metadata format: wants " + std::string(kFormat) + ", not " +
                           format.substr(0, 40));
  }
  REM_ASSIGN_OR_RETURN(const double horizon_ms, metadata.Number("horizon_ms"));
  if (horizon_ms != kForecastHorizonMs) return InvalidArgument("metadata horizon_ms: wants 100");
  REM_ASSIGN_OR_RETURN(const double tick_ms, metadata.Number("tick_ms"));
  if (tick_ms < 0 || tick_ms > kForecastHorizonMs || tick_ms != std::floor(tick_ms) ||
      !IsTickMs(static_cast<int64_t>(tick_ms))) {
    return InvalidArgument("metadata tick_ms: wants 10, 20, 25, 50 or 100");
  }
  model.tick_ms = static_cast<int>(tick_ms);
  REM_ASSIGN_OR_RETURN(const double tau_s, metadata.Number("tau_star"));
  const auto* const tau = std::ranges::find(kRateTausS, tau_s);
  if (tau == kRateTausS.end()) {
    return InvalidArgument("metadata tau_star: wants 0.05, 0.2, 1, 5, 30 or 300");
  }
  model.tau_index = static_cast<int>(tau - kRateTausS.begin());
  REM_ASSIGN_OR_RETURN(model.train_mean, metadata.Number("train_mean"));
  if (model.train_mean < 0 || model.train_mean > 1e6) {
    return InvalidArgument("metadata train_mean: wants 0 to a million");
  }
  REM_ASSIGN_OR_RETURN(const std::string mask, metadata.Text("mask"));
  if (mask.size() != kFeatureCount || mask.find_first_not_of("01") != std::string::npos) {
    return InvalidArgument("metadata mask: wants 18 digits, 0 or 1");
  }
  for (size_t i = 0; i < mask.size(); ++i) model.mask[i] = mask[i] == '1';
  for (const char* key : {"format", "horizon_ms", "tick_ms", "tau_star", "train_mean", "mask"}) {
    model.notes.erase(key);
  }
  return Status::Ok();
}

// A list of `count` whole numbers, or nothing.
std::vector<uint64_t> WholeNumbers(const boost::json::object& entry, const char* key) {
  std::vector<uint64_t> numbers;
  const boost::json::value* list = entry.if_contains(key);
  if (list == nullptr || !list->is_array()) return numbers;
  for (const boost::json::value& item : list->get_array()) {
    if (!item.is_int64() || item.get_int64() < 0) return {};
    numbers.push_back(static_cast<uint64_t>(item.get_int64()));
  }
  return numbers;
}

Result<std::vector<uint64_t>> ShapeOf(const boost::json::object& header, const char* name) {
  const boost::json::value* entry = header.if_contains(name);
  if (entry == nullptr || !entry->is_object()) {
    return InvalidArgument("lacks the tensor " + std::string(name));
  }
  return WholeNumbers(entry->get_object(), "shape");
}

Status ReadTensor(const boost::json::object& header, const TensorPlace& place,
                  std::span<const std::byte> data, std::vector<float>& parameters) {
  const std::string name = place.name;
  REM_ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, ShapeOf(header, place.name));
  std::vector<uint64_t> wanted = {place.rows};
  if (place.columns > 0) wanted.push_back(place.columns);
  if (shape != wanted) return InvalidArgument(name + ": wants the shape " + place.ShapeText());
  const boost::json::object& entry = header.at(place.name).get_object();
  const boost::json::value* type = entry.if_contains("dtype");
  if (type == nullptr || !type->is_string() || type->get_string() != "F32") {
    return InvalidArgument(name + ": wants dtype F32");
  }
  const std::vector<uint64_t> range = WholeNumbers(entry, "data_offsets");
  if (range.size() != 2 || range[1] > data.size() || range[0] > range[1] ||
      range[1] - range[0] != place.count() * sizeof(float)) {
    return InvalidArgument(name + ": data_offsets don't fit its shape or the file");
  }
  const std::byte* at = data.data() + range[0];
  for (size_t row = 0; row < place.rows; ++row) {
    for (size_t column = 0; column < std::max<size_t>(place.columns, 1); ++column) {
      float value = 0;
      std::memcpy(&value, at, sizeof(value));
      at += sizeof(value);
      if (!(std::fabs(value) <= kParameterMax)) {  // NaN too
        return InvalidArgument(name + ": holds a value that is not finite, or above 10000");
      }
      parameters[place.IndexInMemory(row, column)] = value;
    }
  }
  return Status::Ok();
}

Result<boost::json::object> ReadHeader(std::span<const std::byte> bytes, uint64_t& header_bytes) {
  if (bytes.size() < sizeof(header_bytes)) return InvalidArgument("too short for safetensors");
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kHeaderBytesMax || header_bytes > bytes.size() - sizeof(header_bytes)) {
    return InvalidArgument("is no safetensors file: its header's length is wrong");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_bytes),
                              header_bytes);
  boost::json::error_code error;
  boost::json::value header = boost::json::parse(text, error);
  if (error || !header.is_object()) {
    return InvalidArgument("is no safetensors file: its header is no JSON object");
  }
  return std::move(header.get_object());
}

Result<TrainedPredictor> Decode(std::span<const std::byte> bytes) {
  uint64_t header_bytes = 0;
  REM_ASSIGN_OR_RETURN(const boost::json::object header, ReadHeader(bytes, header_bytes));
  TrainedPredictor model;
  if (const boost::json::value* lines = header.if_contains("__metadata__");
      lines != nullptr && lines->is_object()) {
    for (const auto& [key, value] : lines->get_object()) {
      if (value.is_string()) model.notes[key] = value.get_string();
    }
  }
  REM_RETURN_IF_ERROR(ReadMetadata(model));
  REM_ASSIGN_OR_RETURN(const std::vector<uint64_t> bias, ShapeOf(header, "lstm.b"));
  if (bias.size() != 1 || bias[0] == 0 || bias[0] % kGateCount != 0 ||
      bias[0] > kGateCount * kHiddenMax) {
    return InvalidArgument("lstm.b: wants the shape [4H] with H of 1 to 24");
  }
  model.shape.hidden = static_cast<int>(bias[0]) / kGateCount;
  model.parameters.resize(model.shape.parameter_count());
  const auto data = bytes.subspan(sizeof(header_bytes) + header_bytes);
  for (const TensorPlace& place : PlacesOf(model.shape)) {
    REM_RETURN_IF_ERROR(ReadTensor(header, place, data, model.parameters));
  }
  return model;
}

}  // namespace

bool IsTickMs(int64_t tick_ms) {
  return tick_ms >= 10 && tick_ms <= kForecastHorizonMs && kForecastHorizonMs % tick_ms == 0;
}

std::vector<std::byte> EncodePredictor(const TrainedPredictor& model) {
  boost::json::object header;
  boost::json::object metadata;
  for (const auto& [key, value] : MetadataOf(model)) metadata[key] = value;
  header["__metadata__"] = std::move(metadata);
  std::vector<float> data;
  for (const TensorPlace& place : PlacesOf(model.shape)) {
    const size_t begin = data.size() * sizeof(float);
    boost::json::array shape = {place.rows};
    if (place.columns > 0) shape.emplace_back(place.columns);
    for (size_t row = 0; row < place.rows; ++row) {
      for (size_t column = 0; column < std::max<size_t>(place.columns, 1); ++column) {
        data.push_back(model.parameters[place.IndexInMemory(row, column)]);
      }
    }
    header[place.name] = {{"dtype", "F32"},
                          {"shape", std::move(shape)},
                          {"data_offsets", {begin, data.size() * sizeof(float)}}};
  }
  std::string text = boost::json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors lie at multiples of 8
  const uint64_t header_bytes = text.size();
  std::vector<std::byte> bytes(sizeof(header_bytes) + text.size() + data.size() * sizeof(float));
  std::memcpy(bytes.data(), &header_bytes, sizeof(header_bytes));
  std::memcpy(bytes.data() + sizeof(header_bytes), text.data(), text.size());
  std::memcpy(bytes.data() + sizeof(header_bytes) + text.size(), data.data(),
              data.size() * sizeof(float));
  return bytes;
}

Result<TrainedPredictor> DecodePredictor(std::span<const std::byte> bytes,
                                         const std::string& name) {
  Result<TrainedPredictor> model = Decode(bytes);
  if (!model.ok()) return model.status().WithContext(name);
  return model;
}

Result<TrainedPredictor> ReadPredictor(const std::string& path) {
  REM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return DecodePredictor(file.bytes(), path);
}

Status WritePredictor(const TrainedPredictor& model, const std::string& path) {
  const std::vector<std::byte> bytes = EncodePredictor(model);
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (file == nullptr) return IoError(partial + ": can't be written");
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  std::error_code error;
  if (written && closed) std::filesystem::rename(partial, path, error);
  if (written && closed && !error) return Status::Ok();
  std::filesystem::remove(partial, error);
  return IoError(path + ": can't be written");
}

}  // namespace remontoir
