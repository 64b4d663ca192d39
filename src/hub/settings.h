// Where models come from and go to, as the environment says.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "hub/url.h"

namespace remontoir {

struct HubSettings {
  Url endpoint;       // HF_ENDPOINT, default https://huggingface.co; without a slash at its end
  std::string token;  // HF_TOKEN; empty: none
  std::string home;   // REMONTOIR_HOME, default ~/.cache/remontoir
};

// REMONTOIR_HOME, or ~/.cache/remontoir; without a slash at its end.
Result<std::string> ReadHome(const std::function<const char*(const char*)>& variable);

// `variable` gives a variable's value, or nullptr. Errors name the variable.
Result<HubSettings> ReadHubSettings(const std::function<const char*(const char*)>& variable);

}  // namespace remontoir
