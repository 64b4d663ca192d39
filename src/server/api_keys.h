// The keys that may use the API; without any, everybody may.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

// The key in an Authorization header's value, "Bearer KEY"; empty: it has another form.
std::string_view BearerKey(std::string_view authorization);

class ApiKeys {
 public:
  ApiKeys() = default;
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  // One key a line; blank lines and lines that start with '#' don't count. Errors name the file;
  // a file without a key is one, so that a slip doesn't open the door.
  static Result<ApiKeys> Load(const std::string& path);

  // `authorization`: the header's value, "Bearer KEY". The time it takes tells nothing about keys.
  bool Allows(std::string_view authorization) const;

  bool empty() const { return keys_.empty(); }

 private:
  std::vector<std::string> keys_;
};

}  // namespace remontoir
