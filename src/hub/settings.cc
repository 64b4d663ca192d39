// Reads and checks HF_ENDPOINT, HF_TOKEN, REMONTOIR_HOME and HOME.
#include "hub/settings.h"

#include <algorithm>

#include "hub/ascii.h"

namespace remontoir {
namespace {

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kTokenBytesMax = 4096;

std::string_view ValueOf(const std::function<const char*(const char*)>& variable,
                         const char* name) {
  const char* text = variable(name);
  return TrimAscii(text == nullptr ? "" : text);
}

}  // namespace

Result<std::string> ReadHome(const std::function<const char*(const char*)>& variable) {
  std::string home(ValueOf(variable, "REMONTOIR_HOME"));
  if (home.empty()) {
    const std::string user_home(ValueOf(variable, "HOME"));
    if (user_home.empty()) return InvalidArgument("neither REMONTOIR_HOME nor HOME is set");
    home = user_home + "/.cache/remontoir";
  }
  while (home.size() > 1 && home.ends_with('/')) home.pop_back();
  return home;
}

Result<HubSettings> ReadHubSettings(const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) { return ValueOf(variable, name); };
  HubSettings settings;
  std::string endpoint(value("HF_ENDPOINT"));
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  if (endpoint.find_first_of("?#") != std::string::npos) {
    return InvalidArgument("HF_ENDPOINT: address '" + endpoint + "': holds ? or #");
  }
  Result<Url> url = ParseUrl(endpoint);
  if (!url.ok()) return url.status().WithContext("HF_ENDPOINT");
  settings.endpoint = std::move(url).value();
  while (settings.endpoint.text.ends_with('/')) settings.endpoint.text.pop_back();

  settings.token = value("HF_TOKEN");
  const bool printable = std::all_of(settings.token.begin(), settings.token.end(),
                                     [](char c) { return c > 0x20 && c < 0x7f; });
  if (!printable || settings.token.size() > kTokenBytesMax) {
    return InvalidArgument(
        "HF_TOKEN is no token: it holds a blank or a character outside ASCII, or "
        "more than " +
        std::to_string(kTokenBytesMax) + " bytes");
  }

  REM_ASSIGN_OR_RETURN(settings.home, ReadHome(variable));
  return settings;
}

}  // namespace remontoir
