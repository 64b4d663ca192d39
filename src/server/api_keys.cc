// Reading and comparing API keys.
#include "server/api_keys.h"

#include <fstream>

#include "http/http_message.h"

namespace remontoir {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Looks at every byte of what was offered, wherever the first difference is.
bool SameInConstantTime(std::string_view offered, std::string_view key) {
  unsigned difference = offered.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < offered.size(); ++i) {
    difference |=
        static_cast<unsigned char>(offered[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
  }
  return difference == 0;
}

}  // namespace

std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!EqualsIgnoreCase(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return Trimmed(authorization.substr(kScheme.size()));
}

Result<ApiKeys> ApiKeys::Load(const std::string& path) {
  std::ifstream file(path);
  if (!file) return IoError("cannot read the API keys of '" + path + "'");
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    const std::string_view key = Trimmed(line);
    if (!key.empty() && key.front() != '#') keys.emplace_back(key);
  }
  if (file.bad()) return IoError("cannot read the API keys of '" + path + "'");
  if (keys.empty())
    return InvalidArgument("'" + path + "' has no API key; one stands on each line");
  return ApiKeys(std::move(keys));
}

bool ApiKeys::Allows(std::string_view authorization) const {
  if (keys_.empty()) return true;
  const std::string_view offered = BearerKey(authorization);
  bool allowed = false;
  for (const std::string& key : keys_) allowed |= SameInConstantTime(offered, key);
  return allowed;
}

}  // namespace remontoir
