// Reads the NumPy arrays of the oracles: format 1.0, little-endian, C order.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace remontoir {

template <class T>
struct NpyArrayOf {
  std::vector<int64_t> shape;
  std::vector<T> values;
};
using NpyArray = NpyArrayOf<float>;

// The whole array; throws when the file is missing, cut or of another element type than T (a test
// then fails by name).
template <class T = float>
NpyArrayOf<T> ReadNpy(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (file.size() < 10 || file.compare(1, 5, "NUMPY") != 0) {
    throw std::runtime_error(path + ": no .npy file");
  }
  const size_t header_bytes = static_cast<uint8_t>(file[8]) + 256u * static_cast<uint8_t>(file[9]);
  const std::string header = file.substr(10, header_bytes);
  const char kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
  if (header.find(kind + std::to_string(sizeof(T)) + "'") == std::string::npos) {
    throw std::runtime_error(path + ": another element type: " + header);
  }
  NpyArrayOf<T> array;
  size_t count = 1;
  const size_t open = header.find('(');
  const std::string shape = header.substr(open + 1, header.find(')') - open - 1);
  for (size_t at = 0; (at = shape.find_first_of("0123456789", at)) != std::string::npos;) {
    size_t digits = 0;
    array.shape.push_back(std::stoll(shape.substr(at), &digits));
    count *= static_cast<size_t>(array.shape.back());
    at += digits;
  }
  const size_t data = 10 + header_bytes;
  if (file.size() != data + count * sizeof(T)) throw std::runtime_error(path + ": cut short");
  array.values.resize(count);
  std::memcpy(array.values.data(), file.data() + data, count * sizeof(T));
  return array;
}

}  // namespace remontoir
