// Walks the folder of models; everything that is removed was found by that walk.
#include "hub/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>

#include "hub/ascii.h"
#include "hub/partial_file.h"
#include "hub/split_name.h"

namespace remontoir {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 10;  // OWNER, REPO and the parts of a repository path
constexpr size_t kEntriesMax = 100'000;
constexpr size_t kNamesListedMax = 20;
constexpr std::string_view kReferencePrefix = "hf:";
constexpr std::string_view kGgufSuffix = ".gguf";

struct Found {
  std::map<std::string, std::string> files;  // name of a part to its path, partial or final
  std::map<std::string, bool> finals;        // name of a part: under its final name?
  int64_t size_bytes = 0;
  int64_t modified_unix_s = 0;
};

// Takes FILE.gguf, or FILE.gguf.partial while FILE.gguf isn't there.
void Take(const std::string& home, const fs::path& path, std::map<std::string, Found>& found) {
  std::string file = path.string();
  const bool final_name = IsGgufName(file);
  if (!final_name) {
    if (!std::string_view(file).ends_with(kPartialSuffix)) return;
    file.resize(file.size() - kPartialSuffix.size());
    if (!IsGgufName(file)) return;
  }
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const std::string name = file.substr(home.size() + 1);
  Found& model = found[AllParts(name).front()];
  if (!final_name && model.finals[name]) return;
  model.files[name] = path.string();
  model.finals[name] = model.finals[name] || final_name;
  model.size_bytes += status.st_size;
  model.modified_unix_s = std::max<int64_t>(model.modified_unix_s, status.st_mtime);
}

StoredModel ModelOf(const std::string& name, const Found& found) {
  StoredModel model;
  model.name = name;
  model.size_bytes = found.size_bytes;
  model.modified_unix_s = found.modified_unix_s;
  for (const auto& [part, path] : found.files) model.files.push_back(path);
  const std::vector<std::string> parts = AllParts(name);
  model.complete = std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    const auto at = found.finals.find(part);
    return at != found.finals.end() && at->second;
  });
  return model;
}

std::string_view WithoutGguf(std::string_view name) {
  return IsGgufName(name) ? name.substr(0, name.size() - kGgufSuffix.size()) : name;
}

std::string_view FileName(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string NamesOf(const std::vector<StoredModel>& models) {
  std::string text;
  for (size_t i = 0; i < std::min(models.size(), kNamesListedMax); ++i) {
    text += (i == 0 ? "" : ", ") + models[i].name;
  }
  if (models.size() > kNamesListedMax) {
    text += " and " + std::to_string(models.size() - kNamesListedMax) + " more";
  }
  return text;
}

bool StartsWithIgnoreCase(std::string_view text, std::string_view start) {
  return EqualIgnoreCase(text.substr(0, start.size()), start);
}

}  // namespace

std::string StorePath(const std::string& home, const std::string& repository,
                      const std::string& file) {
  return home + "/" + repository + "/" + file;
}

Result<std::vector<StoredModel>> ListModels(const std::string& home) {
  std::vector<StoredModel> models;
  std::error_code error;
  if (!fs::exists(home, error)) return models;
  // Final names sort before their ".partial", so Take sees them first.
  std::vector<fs::path> paths;
  auto walk =
      fs::recursive_directory_iterator(home, fs::directory_options::skip_permission_denied, error);
  for (; !error && walk != fs::end(walk); walk.increment(error)) {
    if (walk->path().filename().native().starts_with('.') || walk.depth() >= kDepthMax) {
      walk.disable_recursion_pending();
      continue;
    }
    paths.push_back(walk->path());
    if (paths.size() > kEntriesMax) {
      return ResourceExhausted(home + " holds more than " + std::to_string(kEntriesMax) + " files");
    }
  }
  if (error) return IoError(home + ": cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  std::map<std::string, Found> found;
  for (const fs::path& path : paths) Take(home, path, found);
  for (const auto& [name, model] : found) models.push_back(ModelOf(name, model));
  return models;
}

Result<StoredModel> FindModel(const std::vector<StoredModel>& models, std::string_view name) {
  if (name.starts_with(kReferencePrefix)) name.remove_prefix(kReferencePrefix.size());
  if (name.empty()) return InvalidArgument("the model's name is empty");
  const std::string_view stem = WithoutGguf(name);
  using Fits = std::function<bool(const StoredModel&)>;
  const Fits tiers[] = {
      [&](const StoredModel& model) { return model.name == name; },
      [&](const StoredModel& model) {
        const std::string_view known = WithoutGguf(model.name);
        return EqualIgnoreCase(known, stem) || EqualIgnoreCase(FileName(known), stem);
      },
      [&](const StoredModel& model) {
        return StartsWithIgnoreCase(model.name, name) ||
               StartsWithIgnoreCase(FileName(model.name), name);
      },
  };
  for (const Fits& fits : tiers) {
    std::vector<StoredModel> fitting;
    std::copy_if(models.begin(), models.end(), std::back_inserter(fitting), fits);
    if (fitting.size() == 1) return fitting.front();
    if (fitting.size() > 1) {
      return InvalidArgument("several models are called '" + std::string(name) +
                             "': " + NamesOf(fitting));
    }
  }
  return NotFound("no model is called '" + std::string(name) + "'; " +
                  (models.empty() ? "there is none yet" : "there are " + NamesOf(models)));
}

Status RemoveModel(const std::string& home, const StoredModel& model) {
  for (const std::string& path : model.files) {
    std::string file = path;
    if (std::string_view(file).ends_with(kPartialSuffix)) {
      file.resize(file.size() - kPartialSuffix.size());
    }
    REM_RETURN_IF_ERROR(RemovePartial(file));
    std::error_code error;
    fs::remove(file, error);
    if (error) return IoError(file + ": cannot be removed: " + error.message());
    // Stops at the first folder that still holds something.
    for (fs::path folder = fs::path(file).parent_path();
         folder.native().size() > home.size() && fs::remove(folder, error);
         folder = folder.parent_path()) {
    }
  }
  return Status::Ok();
}

Result<StoredModel> FindReference(const std::vector<StoredModel>& models,
                                  const ModelReference& reference) {
  const std::string prefix = reference.Repository() + "/";
  std::vector<RepositoryFile> files;
  for (const StoredModel& model : models) {
    if (!model.complete || !model.name.starts_with(prefix)) continue;
    for (const std::string& part : AllParts(model.name.substr(prefix.size()))) {
      files.push_back({part, std::nullopt, ""});
    }
  }
  REM_ASSIGN_OR_RETURN(const std::vector<RepositoryFile> chosen, ChooseFiles(reference, files));
  const std::string name = prefix + chosen.front().name;
  const auto at = std::find_if(models.begin(), models.end(),
                               [&](const StoredModel& model) { return model.name == name; });
  REM_CHECK(at != models.end(), "a file that was chosen is one of those offered");
  return *at;
}

Result<ResolvedModel> ResolveModel(const std::string& home, const std::string& name_or_path) {
  std::error_code error;
  if (!name_or_path.empty() && fs::exists(name_or_path, error))
    return ResolvedModel{name_or_path, {}};
  REM_ASSIGN_OR_RETURN(const std::vector<StoredModel> models, ListModels(home));
  if (name_or_path.starts_with(kReferencePrefix)) {
    REM_ASSIGN_OR_RETURN(ModelReference reference, ParseModelReference(name_or_path));
    if (!reference.file.empty() || !reference.quant.empty()) {
      const Result<StoredModel> stored = FindReference(models, reference);
      if (stored.ok()) return ResolvedModel{stored->files.front(), {}};
    }
    return ResolvedModel{"", std::move(reference)};
  }
  const Result<StoredModel> stored = FindModel(models, name_or_path);
  if (!stored.ok()) {
    return Status(stored.status().code(), "there is no file '" + name_or_path + "', and in " +
                                              home + " " + stored.status().message() +
                                              "; `remontoir pull hf:OWNER/REPO` fetches one");
  }
  if (!stored->complete) {
    return FailedPrecondition("the model " + stored->name + " in " + home +
                              " is not complete: `remontoir pull hf:" + stored->name +
                              "` goes on with it");
  }
  return ResolvedModel{stored->files.front(), {}};
}

}  // namespace remontoir
