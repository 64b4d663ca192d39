// The header is a Python dictionary of three entries, written by NumPy: read by its parts.
#include "eval/npy_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/mapped_file.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kDimensionMax = int64_t{1} << 31;

struct Header {
  std::string_view type;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data_begin = 0;
};

Status NotNpy(const char* why) { return InvalidArgument(std::string("no .npy file: ") + why); }

// What follows `key` in the dictionary.
std::string_view After(std::string_view dictionary, std::string_view key) {
  const size_t at = dictionary.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = dictionary.substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" :"), rest.size()));
  return rest;
}

Result<std::vector<int64_t>> ReadShape(std::string_view text) {
  std::vector<int64_t> shape;
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return NotNpy("it has no shape");
  text = text.substr(1, end - 1);
  while (!text.empty()) {
    int64_t dimension = 0;
    const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), dimension);
    if (error != std::errc() || dimension < 0 || dimension > kDimensionMax) {
      return NotNpy("its shape has something else than sizes");
    }
    shape.push_back(dimension);
    text.remove_prefix(static_cast<size_t>(next - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  }
  return shape;
}

Result<Header> ReadHeader(std::string_view bytes) {
  constexpr size_t kVersionAt = 6;
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) return NotNpy("its first bytes are others");
  const bool long_header = bytes[kVersionAt] != 1;
  const size_t length_bytes = long_header ? 4 : 2;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kVersionAt + 2, length_bytes);
  Header header;
  header.data_begin = kVersionAt + 2 + length_bytes + length;
  if (header.data_begin > bytes.size()) return NotNpy("its header is cut off");
  const std::string_view dictionary = bytes.substr(kVersionAt + 2 + length_bytes, length);
  const std::string_view type = After(dictionary, "'descr'");
  if (!type.starts_with('\'')) return NotNpy("it has no element type");
  header.type = type.substr(1, type.substr(1).find('\''));
  header.fortran_order = After(dictionary, "'fortran_order'").starts_with("True");
  REM_ASSIGN_OR_RETURN(header.shape, ReadShape(After(dictionary, "'shape'")));
  return header;
}

template <class Element, class Convert>
void ReadValues(std::string_view data, const Convert& convert, std::vector<float>* values) {
  for (size_t i = 0; i < values->size(); ++i) {
    Element element;
    std::memcpy(&element, data.data() + i * sizeof element, sizeof element);
    (*values)[i] = convert(element);
  }
}

Result<NpyMatrix> ReadMatrix(std::string_view bytes) {
  REM_ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  const size_t element_bytes = header.type == "<f2"   ? 2
                               : header.type == "<f4" ? 4
                               : header.type == "<f8" ? 8
                                                      : 0;
  if (element_bytes == 0) {
    return Unsupported("elements of type " + std::string(header.type) + ", wanted <f2, <f4 or <f8");
  }
  if (header.fortran_order) return Unsupported("an array in Fortran's order, wanted C's");
  if (header.shape.empty() || header.shape.size() > 2) {
    return Unsupported("an array of " + std::to_string(header.shape.size()) +
                       " dimensions, wanted [rows, vocabulary] or [vocabulary]");
  }
  NpyMatrix matrix;
  matrix.rows = header.shape.size() == 2 ? header.shape[0] : 1;
  matrix.columns = header.shape.back();
  const std::string_view data = bytes.substr(header.data_begin);
  // Two sizes below 2^31 don't overflow; what doesn't equal the file's size asks for no memory.
  const auto count = static_cast<uint64_t>(matrix.rows) * static_cast<uint64_t>(matrix.columns);
  if (count > data.size() || count * element_bytes != data.size()) {
    return InvalidArgument("its shape wants " + std::to_string(count) + " values of " +
                           std::to_string(element_bytes) + " bytes, but it has " +
                           std::to_string(data.size()) + " bytes of them");
  }
  matrix.values.resize(static_cast<size_t>(count));
  if (element_bytes == 2) {
    ReadValues<uint16_t>(data, HalfToFloat, &matrix.values);
  } else if (element_bytes == 4) {
    ReadValues<float>(
        data, [](float x) { return x; }, &matrix.values);
  } else {
    ReadValues<double>(
        data, [](double x) { return static_cast<float>(x); }, &matrix.values);
  }
  return matrix;
}

}  // namespace

Result<NpyMatrix> ReadNpyMatrix(const std::string& path) {
  REM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const auto bytes = file.bytes();
  Result<NpyMatrix> matrix =
      ReadMatrix({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!matrix.ok()) return matrix.status().WithContext(path);
  return matrix;
}

}  // namespace remontoir
