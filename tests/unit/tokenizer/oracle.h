// The tokenizer oracles as the tests read them: JSON lines, token ids, and SmolLM2's tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "formats/model_file.h"
#include "tests/support/paths.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

// The objects of a file of JSON lines.
inline std::vector<boost::json::object> ReadOracleLines(const std::string& name) {
  std::vector<boost::json::object> rows;
  std::ifstream file(TestData(name));
  EXPECT_TRUE(file.good()) << name;
  for (std::string line; std::getline(file, line);) {
    rows.push_back(boost::json::parse(line).as_object());
  }
  return rows;
}

inline std::string StringOf(const boost::json::value& value) {
  return std::string(value.as_string());
}

inline std::vector<int> IntsOf(const boost::json::value& ids) {
  return boost::json::value_to<std::vector<int>>(ids);
}

inline std::vector<int> IntsOf(const std::vector<TokenId>& tokens) {
  std::vector<int> ids;
  for (TokenId token : tokens) ids.push_back(Index(token));
  return ids;
}

inline std::vector<TokenId> TokensOf(const boost::json::value& ids) {
  std::vector<TokenId> tokens;
  for (int id : IntsOf(ids)) tokens.push_back(TokenId{id});
  return tokens;
}

inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

inline Result<Tokenizer> LoadTokenizer(const std::string& path) {
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(path));
  return Tokenizer::FromModelFile(file);
}

// Loaded once for the test program.
inline const Tokenizer& SmolLm2() {
  static const Tokenizer tokenizer = [] {
    Result<Tokenizer> loaded = LoadTokenizer(DefaultModelPath());
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return std::move(loaded).value();
  }();
  return tokenizer;
}

}  // namespace remontoir
