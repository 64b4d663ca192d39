// Parses with libcurl's own parser, so that what is checked is what is asked.
#include "hub/url.h"

#include <curl/curl.h>

#include <memory>

#include "hub/ascii.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

struct HandleDeleter {
  void operator()(CURLU* handle) const { curl_url_cleanup(handle); }
};
using Handle = std::unique_ptr<CURLU, HandleDeleter>;

std::string Part(CURLU* handle, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(handle, part, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, curl_free);
  return text;
}

Status Bad(std::string_view text, std::string_view what) {
  return InvalidArgument("address '" + PrintableAscii(ReplaceInvalidUtf8(text)) +
                         "': " + std::string(what));
}

Result<Url> Read(CURLU* handle, std::string_view text) {
  Url url;
  url.scheme = AsciiLower(Part(handle, CURLUPART_SCHEME));
  if (url.scheme != "http" && url.scheme != "https") {
    return Bad(text, "only http and https are spoken");
  }
  if (!Part(handle, CURLUPART_USER).empty() || !Part(handle, CURLUPART_PASSWORD).empty()) {
    return Bad(text, "holds a user or a password");
  }
  url.host = AsciiLower(Part(handle, CURLUPART_HOST));
  url.port = Part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  curl_url_set(handle, CURLUPART_FRAGMENT, nullptr, 0);
  url.text = Part(handle, CURLUPART_URL);
  return url;
}

Status Set(CURLU* handle, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return Bad(text, "holds a NUL");
  const CURLUcode code = curl_url_set(handle, CURLUPART_URL, std::string(text).c_str(), 0);
  return code == CURLUE_OK ? Status::Ok() : Bad(text, curl_url_strerror(code));
}

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  const Handle handle(curl_url());
  REM_RETURN_IF_ERROR(Set(handle.get(), text));
  return Read(handle.get(), text);
}

Result<Url> ResolveRedirect(const Url& from, std::string_view location) {
  const Handle handle(curl_url());
  REM_RETURN_IF_ERROR(Set(handle.get(), from.text));
  REM_RETURN_IF_ERROR(Set(handle.get(), location));
  REM_ASSIGN_OR_RETURN(Url url, Read(handle.get(), location));
  if (from.scheme == "https" && url.scheme != "https") {
    return Bad(location, "a redirect from https to http is not followed");
  }
  return url;
}

bool SameOrigin(const Url& a, const Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

std::string EscapePath(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : path) {
    if (IsAsciiAlphanumeric(c) || kPlain.find(c) != std::string_view::npos) {
      escaped += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return escaped;
}

}  // namespace remontoir
