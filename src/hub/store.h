// The folder of models: what is there, what a name means, removal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hub/model_reference.h"
#include "hub/repository.h"

namespace remontoir {

struct StoredModel {
  std::string name;                // below the store: OWNER/REPO/FILE.gguf, or FILE.gguf
  std::vector<std::string> files;  // paths of what is there, in the order of parts
  int64_t size_bytes = 0;          // of what is there
  int64_t modified_unix_s = 0;     // the newest file's
  bool complete = false;           // every part is there under its final name
};

// Where a file of a repository is kept.
std::string StorePath(const std::string& home, const std::string& repository,
                      const std::string& file);

// Every GGUF model below `home`, by name; a split model is one, named by its first part. Folders
// behind symbolic links are not entered. A home that isn't there holds none.
Result<std::vector<StoredModel>> ListModels(const std::string& home);

// The one model a person means: its exact name or that of its file, with or without .gguf, in any
// case of letters where that is unique; else the only one whose name, or whose file's name, starts
// so. Errors list what fits, or what there is.
Result<StoredModel> FindModel(const std::vector<StoredModel>& models, std::string_view name);

// Removes a model of ListModels with its partial files, and folders that become empty. A model that
// is being downloaded is kept: kFailedPrecondition.
Status RemoveModel(const std::string& home, const StoredModel& model);

// The complete model in the store that a reference means (ChooseFiles among what is there).
Result<StoredModel> FindReference(const std::vector<StoredModel>& models,
                                  const ModelReference& reference);

// What `serve` and `run` open.
struct ResolvedModel {
  std::string path;  // of the (first) file; empty when `reference` is to be pulled
  std::optional<ModelReference> pull;  // not in the store yet
};

// An existing path; else, with `hf:`, a reference (in the store when it names a file or a
// quantisation that is there); else a name in the store, which must be complete.
Result<ResolvedModel> ResolveModel(const std::string& home, const std::string& name_or_path);

}  // namespace remontoir
