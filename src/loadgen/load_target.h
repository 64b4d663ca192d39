// Where a load goes.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace remontoir {

struct LoadTarget {
  std::string host;  // a name or an address, IPv6 without brackets
  std::string port;
  std::string authority;  // for the Host header
  std::string path;       // before "/v1/...": empty or "/base", never with a slash at its end
};

// Of "http://HOST[:PORT][/BASE]"; https isn't spoken. Errors quote the text.
Result<LoadTarget> ParseLoadTarget(std::string_view url);

}  // namespace remontoir
