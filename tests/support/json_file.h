// Reads JSON and JSON-lines files of the oracles.
#pragma once

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace remontoir {

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("can't read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline boost::json::value ReadJson(const std::string& path) {
  return boost::json::parse(ReadText(path));
}

inline std::vector<boost::json::value> ReadJsonLines(const std::string& path) {
  std::vector<boost::json::value> values;
  std::istringstream lines(ReadText(path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) values.push_back(boost::json::parse(line));
  }
  return values;
}

inline std::vector<int32_t> Ints(const boost::json::value& array) {
  std::vector<int32_t> values;
  for (const auto& value : array.as_array()) values.push_back(value.to_number<int32_t>());
  return values;
}

}  // namespace remontoir
