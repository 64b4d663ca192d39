// Reads the hub's list of files (Boost.JSON stays here) and chooses among them.
#include "hub/repository.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "hub/ascii.h"
#include "hub/split_name.h"

namespace remontoir {
namespace {

namespace json = boost::json;

constexpr size_t kJsonDepthMax = 32;
constexpr size_t kFilesMax = 100'000;
constexpr int64_t kFileBytesMax = int64_t{1} << 50;
constexpr size_t kFilesDescribedMax = 20;
constexpr std::string_view kPreferredQuants[] = {"Q4_K_M", "Q4_0", "Q8_0"};

const json::value* Find(const json::object& object, std::string_view key) {
  return object.if_contains(key);
}

std::string_view StringOf(const json::value* value) {
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

std::optional<int64_t> SizeOf(const json::value* value) {
  if (value == nullptr) return std::nullopt;
  const int64_t* size = value->if_int64();
  if (size == nullptr || *size < 0 || *size > kFileBytesMax) return std::nullopt;
  return *size;
}

RepositoryFile FileOf(const json::object& sibling, std::string_view name) {
  RepositoryFile file{std::string(name), SizeOf(Find(sibling, "size")), ""};
  const json::value* lfs = Find(sibling, "lfs");
  if (lfs == nullptr || !lfs->is_object()) return file;
  const json::object& large = lfs->get_object();
  if (const auto size = SizeOf(Find(large, "size"))) file.size_bytes = size;
  file.sha256 = Sha256FromText(StringOf(Find(large, "sha256")));
  if (file.sha256.empty()) file.sha256 = Sha256FromText(StringOf(Find(large, "oid")));
  return file;
}

Result<std::vector<RepositoryFile>> FilesOf(const json::value& answer) {
  if (!answer.is_object()) return InvalidArgument("the list of files is no JSON object");
  const json::value* siblings = Find(answer.get_object(), "siblings");
  if (siblings == nullptr || !siblings->is_array()) {
    return InvalidArgument("siblings: missing, or no list");
  }
  if (siblings->get_array().size() > kFilesMax) {
    return InvalidArgument("siblings: more than " + std::to_string(kFilesMax) + " files");
  }
  std::vector<RepositoryFile> files;
  for (const json::value& sibling : siblings->get_array()) {
    if (!sibling.is_object()) return InvalidArgument("siblings: an entry is no object");
    const json::value* name = Find(sibling.get_object(), "rfilename");
    if (name == nullptr || !name->is_string()) {
      return InvalidArgument("siblings: an entry has no rfilename");
    }
    if (!IsGgufName(StringOf(name)) || !CheckRepositoryPath(StringOf(name)).ok()) continue;
    files.push_back(FileOf(sibling.get_object(), StringOf(name)));
  }
  return files;
}

bool HoldsWord(std::string_view name, std::string_view word) {
  const auto inside = [](char c) { return IsAsciiAlphanumeric(c) || c == '_'; };
  for (size_t at = 0; at + word.size() <= name.size(); ++at) {
    if (!EqualIgnoreCase(name.substr(at, word.size()), word)) continue;
    // "_" may stand before a quantisation (model_Q4_0), but after it the name goes on (Q4_0_4_4).
    const bool starts = at == 0 || !IsAsciiAlphanumeric(name[at - 1]);
    const size_t end = at + word.size();
    if (starts && (end == name.size() || !inside(name[end]))) return true;
  }
  return false;
}

// A model of a list: one file, or the parts of a split one.
struct Candidate {
  std::string stem;  // the name without .gguf and without the number of a part
  std::vector<const RepositoryFile*> files;
  int count = 1;
};

std::vector<Candidate> CandidatesOf(const std::vector<RepositoryFile>& listed) {
  std::map<std::string, Candidate> by_first_name;
  for (const RepositoryFile& file : listed) {
    const std::optional<SplitName> split = ParseSplitName(file.name);
    Candidate& candidate =
        by_first_name[split ? SplitPartName(split->stem, 1, split->count) : file.name];
    candidate.stem = split ? split->stem : file.name.substr(0, file.name.rfind('.'));
    candidate.count = split ? split->count : 1;
    candidate.files.push_back(&file);
  }
  std::vector<Candidate> candidates;
  candidates.reserve(by_first_name.size());
  for (auto& [name, candidate] : by_first_name) candidates.push_back(std::move(candidate));
  return candidates;
}

bool IsCompanion(const Candidate& candidate) {
  const std::string name =
      AsciiLower(std::string_view(candidate.stem).substr(candidate.stem.rfind('/') + 1));
  return name.starts_with("mmproj") || name.find("imatrix") != std::string::npos;
}

Result<std::vector<RepositoryFile>> Parts(const ModelReference& reference, Candidate candidate) {
  std::sort(candidate.files.begin(), candidate.files.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  std::vector<RepositoryFile> parts;
  parts.reserve(candidate.files.size());
  for (const RepositoryFile* file : candidate.files) parts.push_back(*file);
  if (static_cast<int>(parts.size()) != candidate.count) {
    return InvalidArgument(reference.Repository() + " has " + std::to_string(parts.size()) +
                           " of the " + std::to_string(candidate.count) + " parts of " +
                           candidate.stem + ": " + DescribeFiles(parts));
  }
  return parts;
}

Result<std::vector<RepositoryFile>> ChooseByQuant(const ModelReference& reference,
                                                  const std::vector<Candidate>& candidates,
                                                  std::string_view quant) {
  std::vector<Candidate> fitting;
  for (const Candidate& candidate : candidates) {
    if (HoldsWord(candidate.stem, quant)) fitting.push_back(candidate);
  }
  if (fitting.empty()) {
    return NotFound("no model in " + reference.Repository() + " is " + std::string(quant));
  }
  if (fitting.size() == 1) return Parts(reference, std::move(fitting.front()));
  std::vector<RepositoryFile> firsts;
  firsts.reserve(fitting.size());
  for (const Candidate& candidate : fitting) firsts.push_back(*candidate.files.front());
  return InvalidArgument("several models in " + reference.Repository() + " are " +
                         std::string(quant) + ": name one of " + DescribeFiles(firsts) +
                         " as hf:" + reference.Repository() + "/FILE");
}

}  // namespace

std::string Sha256FromText(std::string_view text) {
  constexpr size_t kDigits = 64;
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  constexpr std::string_view kPrefix = "sha256:";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  const bool hex = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (AsciiLower(c) >= 'a' && AsciiLower(c) <= 'f');
  });
  return text.size() == kDigits && hex ? AsciiLower(text) : "";
}

std::string SizeText(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit > 0 && value < 9.95 ? "%.1f %s" : "%.0f %s", value,
                kUnits[unit]);
  return text;
}

std::string DescribeFiles(const std::vector<RepositoryFile>& files) {
  if (files.empty()) return "no GGUF file";
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), kFilesDescribedMax); ++i) {
    if (i > 0) text += ", ";
    text += files[i].name;
    if (files[i].size_bytes) text += " (" + SizeText(*files[i].size_bytes) + ")";
  }
  if (files.size() > kFilesDescribedMax) {
    text += " and " + std::to_string(files.size() - kFilesDescribedMax) + " more";
  }
  return text;
}

Result<std::vector<RepositoryFile>> ParseRepositoryListing(std::string_view text) {
  try {
    json::parse_options options;
    options.max_depth = kJsonDepthMax;
    boost::system::error_code error;
    const json::value answer = json::parse({text.data(), text.size()}, error, {}, options);
    if (error) return InvalidArgument("the list of files is no JSON: " + error.message());
    return FilesOf(answer);
  } catch (const std::exception& exception) {
    return InvalidArgument("the list of files: " + std::string(exception.what()));
  }
}

Result<std::vector<RepositoryFile>> ChooseFiles(const ModelReference& reference,
                                                const std::vector<RepositoryFile>& listed) {
  const std::vector<Candidate> all = CandidatesOf(listed);
  if (!reference.file.empty()) {
    for (const Candidate& candidate : all) {
      for (const RepositoryFile* file : candidate.files) {
        if (file->name == reference.file) return Parts(reference, candidate);
      }
    }
    return NotFound(reference.Repository() + " has no file " + reference.file + "; it holds " +
                    DescribeFiles(listed));
  }
  std::vector<Candidate> models;
  std::copy_if(all.begin(), all.end(), std::back_inserter(models),
               [](const Candidate& candidate) { return !IsCompanion(candidate); });
  if (models.empty()) {
    return NotFound(reference.Repository() + " holds no GGUF model" +
                    (listed.empty() ? "" : ", only " + DescribeFiles(listed)));
  }
  if (!reference.quant.empty()) {
    auto chosen = ChooseByQuant(reference, models, reference.quant);
    if (chosen.ok() || chosen.status().code() != StatusCode::kNotFound) return chosen;
    return NotFound(chosen.status().message() + "; it holds " + DescribeFiles(listed));
  }
  for (const std::string_view quant : kPreferredQuants) {
    auto chosen = ChooseByQuant(reference, models, quant);
    if (chosen.ok() || chosen.status().code() != StatusCode::kNotFound) return chosen;
  }
  return Parts(reference, models.front());
}

}  // namespace remontoir
