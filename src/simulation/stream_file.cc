// A table of keys over the recipe's fields.
#include "simulation/stream_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <vector>

#include "config/load.h"

namespace remontoir {
namespace {

struct RealKey {
  const char* name;
  double min, max;
  double& (*field)(StreamRecipe& recipe);
};

struct IntegerKey {
  const char* name;
  int64_t min, max;
  int32_t& (*field)(StreamRecipe& recipe);
};

constexpr RealKey kRealKeys[] = {
    {"keep", 1e-6, 1, [](StreamRecipe& r) -> double& { return r.keep; }},
    {"prompt_divisor", 1e-3, 1e6, [](StreamRecipe& r) -> double& { return r.prompt_divisor; }},
    {"output_divisor", 1e-3, 1e6, [](StreamRecipe& r) -> double& { return r.output_divisor; }},
    {"seconds", 1, 1e7, [](StreamRecipe& r) -> double& { return r.bursts.seconds; }},
    {"calm_per_s", 1e-6, 1e4, [](StreamRecipe& r) -> double& { return r.bursts.calm_per_s; }},
    {"calm_s_mean", 1e-3, 1e6, [](StreamRecipe& r) -> double& { return r.bursts.calm_s_mean; }},
    {"burst_per_s", 1e-6, 1e4, [](StreamRecipe& r) -> double& { return r.bursts.burst_per_s; }},
    {"burst_s_mean", 1e-3, 1e6, [](StreamRecipe& r) -> double& { return r.bursts.burst_s_mean; }},
    {"prompt_mean", 1, 1e5, [](StreamRecipe& r) -> double& { return r.bursts.prompt_mean; }},
    {"prompt_sigma", 0, 4, [](StreamRecipe& r) -> double& { return r.bursts.prompt_sigma; }},
    {"output_mean", 1, 1e5, [](StreamRecipe& r) -> double& { return r.bursts.output_mean; }},
};

constexpr IntegerKey kIntegerKeys[] = {
    {"slots", 1, 1024, [](StreamRecipe& r) -> int32_t& { return r.machine.slots; }},
    {"round_tokens_max", 1032, 1 << 20,
     [](StreamRecipe& r) -> int32_t& { return r.machine.round_tokens_max; }},
    {"queue_max", 1, 1 << 20, [](StreamRecipe& r) -> int32_t& { return r.machine.queue_max; }},
};

Status SetKey(const YamlEntry& entry, const std::filesystem::path& folder, StreamRecipe& recipe) {
  if (entry.key == "trace") {
    REM_ASSIGN_OR_RETURN(const std::string file, ReadText(entry.value));
    if (file.empty()) return InvalidArgument("wants a file's path");
    recipe.trace = (folder / file).string();
    return Status::Ok();
  }
  for (const RealKey& key : kRealKeys) {
    if (entry.key != key.name) continue;
    REM_ASSIGN_OR_RETURN(key.field(recipe), ReadReal(entry.value, key.min, key.max));
    return Status::Ok();
  }
  for (const IntegerKey& key : kIntegerKeys) {
    if (entry.key != key.name) continue;
    REM_ASSIGN_OR_RETURN(const int64_t value, ReadInteger(entry.value, key.min, key.max));
    key.field(recipe) = static_cast<int32_t>(value);
    return Status::Ok();
  }
  return InvalidArgument("unknown key; docs/simulation.md lists them");
}

}  // namespace

Result<StreamRecipe> ParseStreamFile(const std::string& text, const std::string& path) {
  REM_ASSIGN_OR_RETURN(std::vector<YamlEntry> entries, ParseFlatYaml(text, path));
  StreamRecipe recipe;
  recipe.name = std::filesystem::path(path).stem().string();
  // What the machine is comes first: other keys change it.
  const auto machine = std::ranges::find(entries, "machine", &YamlEntry::key);
  if (machine != entries.end()) {
    Result<std::string> name = ReadText(machine->value);
    if (!name.ok()) return name.status().WithContext(machine->place + ": machine");
    Result<Machine> named = MachineNamed(*name);
    if (!named.ok()) return named.status().WithContext(machine->place + ": machine");
    recipe.machine = *named;
    entries.erase(machine);
  }
  for (const YamlEntry& entry : entries) {
    REM_RETURN_IF_ERROR(SetKey(entry, std::filesystem::path(path).parent_path(), recipe)
                            .WithContext(entry.place + ": " + entry.key));
  }
  return recipe;
}

Result<StreamRecipe> LoadStreamFile(const std::string& path) {
  // The text is read by the parser's room, which knows how large such a file may be.
  REM_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  return ParseStreamFile(text, path);
}

}  // namespace remontoir
