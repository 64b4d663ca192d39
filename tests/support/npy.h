// Reads the NumPy arrays of the oracles: format 1.0, little-endian, C order.
#pragma once

#include <cstdint>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace remontoir {

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// A float32 array; throws when the file is missing or of another type (a test then fails by name).
inline NpyArray ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char prefix[10] = {};
  if (!file.read(prefix, sizeof(prefix))) throw std::runtime_error("can't read " + path);
  const size_t header_bytes =
      static_cast<uint8_t>(prefix[8]) | static_cast<size_t>(static_cast<uint8_t>(prefix[9])) << 8;
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  if (header.find("'<f4'") == std::string::npos) throw std::runtime_error(path + ": not float32");
  NpyArray array;
  const std::string dims = header.substr(header.find('(') + 1);
  const std::regex number("[0-9]+");
  const std::string inside = dims.substr(0, dims.find(')'));
  int64_t count = 1;
  for (std::sregex_iterator it(inside.begin(), inside.end(), number), end; it != end; ++it) {
    array.shape.push_back(std::stoll(it->str()));
    count *= array.shape.back();
  }
  array.values.resize(count);
  file.read(reinterpret_cast<char*>(array.values.data()),
            static_cast<std::streamsize>(count * sizeof(float)));
  if (!file) throw std::runtime_error(path + ": truncated");
  return array;
}

}  // namespace remontoir
