// The table of configuration keys: the one place that says which there are, what they hold and what
// they do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "config/config.h"
#include "config/value.h"

namespace remontoir {

struct ConfigKey {
  std::string_view name;           // "engine.threads"
  std::string_view type;           // for people: "whole number or auto"
  std::string_view default_value;  // as YAML would write it; empty: none
  std::string_view what;           // one sentence without a full stop
  Status (*set)(Config& config, const ConfigValue& value);
};

std::span<const ConfigKey> ConfigKeys();
const ConfigKey* FindConfigKey(std::string_view name);  // nullptr when there is none
bool IsConfigSection(std::string_view name);            // "engine"
// The key or section that `name`, a key or section unknown to us, was most likely meant to be;
// empty when none is near.
std::string_view NearestConfigName(std::string_view name);
// The error for a name that is neither: "engine.thread: unknown key; did you mean engine.threads?"
Status UnknownConfigName(std::string_view name);

// Says what could not be set, and why.
Status SetConfigKey(std::string_view name, const ConfigValue& value, Config& config);

// Bounds that concern two keys at once.
Status CheckConfig(const Config& config);

}  // namespace remontoir
