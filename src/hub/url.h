// Addresses of the hub: parts of a URL, where a redirect leads, and who may see the token.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace remontoir {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case
  std::string port;    // "443" where the text names none
  std::string text;    // the whole, normalised, without user, password and fragment
};

// Errors quote the text. Any scheme but http and https is one, and so is a user or a password.
Result<Url> ParseUrl(std::string_view text);

// Where `location`, relative or not, leads from `from`. An error when it leaves https for http.
Result<Url> ResolveRedirect(const Url& from, std::string_view location);

// The same scheme, host and port: a token for one may be sent to the other.
bool SameOrigin(const Url& a, const Url& b);

// Every byte but letters, digits and "-._~/" as %XX: a path as part of a URL.
std::string EscapePath(std::string_view path);

}  // namespace remontoir
