// yaml-cpp stays in this file: YAML nodes become ConfigValues for the key table.
#include "config/load.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "config/keys.h"

namespace remontoir {
namespace {

// A configuration is a page; a model file given by mistake is not read to its end.
constexpr int64_t kFileBytesMax = 1 << 20;

// "FILE:LINE"; yaml-cpp counts lines from 0, and from -1 when it knows none.
std::string Place(const std::string& name, const YAML::Mark& mark) {
  return name + ":" + std::to_string(std::max(mark.line, 0) + 1);
}

ConfigValue::Kind KindOf(const YAML::Node& node) {
  if (node.IsScalar()) return ConfigValue::Kind::kScalar;
  if (node.IsSequence()) return ConfigValue::Kind::kList;
  return node.IsMap() ? ConfigValue::Kind::kOther : ConfigValue::Kind::kEmpty;
}

// No key takes a list of lists, so one level is read.
ConfigValue ToValue(const YAML::Node& node) {
  const auto shallow = [](const YAML::Node& from) {
    ConfigValue value;
    value.kind = KindOf(from);
    if (from.IsScalar()) value.text = from.Scalar();
    value.quoted = from.Tag() == "!";
    return value;
  };
  ConfigValue value = shallow(node);
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) value.items.push_back(shallow(item));
  }
  return value;
}

Status ReadSection(const std::string& section, const YAML::Node& keys, const std::string& name,
                   Config& config) {
  std::set<std::string> seen;
  for (const auto& entry : keys) {
    const std::string place = Place(name, entry.first.Mark());
    const std::string key =
        section + "." + (entry.first.IsScalar() ? entry.first.Scalar() : "(not a word)");
    if (!seen.insert(key).second) return InvalidArgument(place + ": " + key + ": is given twice");
    REM_RETURN_IF_ERROR(SetConfigKey(key, ToValue(entry.second), config).WithContext(place));
  }
  return Status::Ok();
}

Status ReadDocument(const YAML::Node& document, const std::string& name, Config& config) {
  if (document.IsNull()) return Status::Ok();
  if (!document.IsMap()) {
    return InvalidArgument(Place(name, document.Mark()) + ": wants sections such as `server:`");
  }
  std::set<std::string> seen;
  for (const auto& entry : document) {
    const std::string place = Place(name, entry.first.Mark());
    const std::string section = entry.first.IsScalar() ? entry.first.Scalar() : "(not a word)";
    if (!IsConfigSection(section)) return UnknownConfigName(section).WithContext(place);
    if (!seen.insert(section).second) {
      return InvalidArgument(place + ": " + section + ": is given twice");
    }
    if (entry.second.IsNull()) continue;
    if (!entry.second.IsMap()) {
      return InvalidArgument(place + ": " + section + ": wants keys below it, one a line");
    }
    REM_RETURN_IF_ERROR(ReadSection(section, entry.second, name, config));
  }
  return CheckConfig(config).WithContext(name);
}

Result<std::vector<YamlEntry>> ReadFlatDocument(const YAML::Node& document,
                                                const std::string& name) {
  std::vector<YamlEntry> entries;
  if (document.IsNull()) return entries;
  if (!document.IsMap()) {
    return InvalidArgument(Place(name, document.Mark()) + ": wants `key: value` lines");
  }
  std::set<std::string> seen;
  for (const auto& entry : document) {
    const std::string place = Place(name, entry.first.Mark());
    if (!entry.first.IsScalar()) return InvalidArgument(place + ": wants a word as the key");
    const std::string key = entry.first.Scalar();
    if (!seen.insert(key).second) return InvalidArgument(place + ": " + key + ": is given twice");
    entries.push_back({place, key, ToValue(entry.second)});
  }
  return entries;
}

// `read` gets the one document of a text, if it has one.
template <class Read>
Status ReadOneDocument(const std::string& text, const std::string& name, const Read& read) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return InvalidArgument(Place(name, documents[1].Mark()) + ": wants one YAML document");
    }
    return documents.empty() ? Status::Ok() : read(documents[0]);
  } catch (const YAML::Exception& error) {
    return InvalidArgument(Place(name, error.mark) + ": " + error.msg);
  }
}

}  // namespace

Result<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(path + ": can't be opened");
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), kFileBytesMax + 1);
  if (file.bad() || (file.fail() && !file.eof())) return IoError(path + ": can't be read");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) return InvalidArgument(path + ": is larger than 1 MiB");
  return text;
}

Result<Config> ParseConfig(const std::string& text, const std::string& name) {
  Config config;
  REM_RETURN_IF_ERROR(ReadOneDocument(text, name, [&](const YAML::Node& document) {
    return ReadDocument(document, name, config);
  }));
  return config;
}

Result<Config> LoadConfig(const std::string& path) {
  REM_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  return ParseConfig(text, path);
}

Result<std::vector<YamlEntry>> ParseFlatYaml(const std::string& text, const std::string& name) {
  std::vector<YamlEntry> entries;
  REM_RETURN_IF_ERROR(ReadOneDocument(text, name, [&](const YAML::Node& document) {
    REM_ASSIGN_OR_RETURN(entries, ReadFlatDocument(document, name));
    return Status::Ok();
  }));
  return entries;
}

}  // namespace remontoir
