// Parses references; the bounds are those of the hub and of file systems.
#include "hub/model_reference.h"

#include <algorithm>

#include "hub/ascii.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

constexpr size_t kReferenceBytesMax = 2048;
constexpr size_t kNameBytesMax = 96;  // of an owner or a repository, as on the hub
constexpr size_t kQuantBytesMax = 32;
constexpr size_t kPathBytesMax = 1024;
constexpr size_t kPathPartBytesMax = 220;  // leaves room for ".partial.json" in a file name
constexpr size_t kPathPartsMax = 8;
constexpr std::string_view kScheme = "hf:";
constexpr std::string_view kForms =
    "write hf:OWNER/REPO, hf:OWNER/REPO:QUANT or hf:OWNER/REPO/FILE.gguf";

bool IsNameCharacter(char c) { return IsAsciiAlphanumeric(c) || c == '-' || c == '_' || c == '.'; }

bool IsName(std::string_view name, size_t bytes_max) {
  return !name.empty() && name.size() <= bytes_max && name.front() != '.' && name.front() != '-' &&
         name.find("..") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

Status CheckPathPart(std::string_view part) {
  if (part.empty()) return InvalidArgument("a part of the path is empty");
  if (part.front() == '.') return InvalidArgument("a part of the path starts with a dot");
  if (part.size() > kPathPartBytesMax) {
    return InvalidArgument("a part of the path is longer than " +
                           std::to_string(kPathPartBytesMax) + " bytes");
  }
  for (const char c : part) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' || c == ':') {
      return InvalidArgument("the path holds a control character, a backslash or a colon");
    }
  }
  return Status::Ok();
}

}  // namespace

bool IsGgufName(std::string_view name) { return EndsWithIgnoreCase(name, ".gguf"); }

Status CheckRepositoryPath(std::string_view path) {
  if (path.size() > kPathBytesMax) {
    return InvalidArgument("the path is longer than " + std::to_string(kPathBytesMax) + " bytes");
  }
  if (!IsValidUtf8(path)) return InvalidArgument("the path is not UTF-8");
  size_t parts = 0;
  for (std::string_view rest = path;;) {
    if (++parts > kPathPartsMax) {
      return InvalidArgument("the path has more than " + std::to_string(kPathPartsMax) + " parts");
    }
    const size_t slash = rest.find('/');
    REM_RETURN_IF_ERROR(CheckPathPart(rest.substr(0, slash)));
    if (slash == std::string_view::npos) return Status::Ok();
    rest.remove_prefix(slash + 1);
  }
}

Result<ModelReference> ParseModelReference(std::string_view text) {
  if (text.size() > kReferenceBytesMax) {
    return InvalidArgument("a model reference has at most " + std::to_string(kReferenceBytesMax) +
                           " bytes, this one has " + std::to_string(text.size()));
  }
  const auto error = [&](std::string_view what) {
    return InvalidArgument("model reference '" + PrintableAscii(ReplaceInvalidUtf8(text)) +
                           "': " + std::string(what) + "; " + std::string(kForms));
  };
  std::string_view rest = text;
  if (rest.starts_with(kScheme)) rest.remove_prefix(kScheme.size());

  ModelReference reference;
  const size_t owner_end = rest.find('/');
  if (owner_end == std::string_view::npos) return error("no '/' between owner and repository");
  reference.owner = rest.substr(0, owner_end);
  if (!IsName(reference.owner, kNameBytesMax)) return error("the owner is no name of the hub");
  rest.remove_prefix(owner_end + 1);

  const size_t repo_end = rest.find_first_of("/:");
  reference.repo = rest.substr(0, repo_end);
  if (!IsName(reference.repo, kNameBytesMax)) return error("the repository is no name of the hub");
  if (repo_end == std::string_view::npos) return reference;

  const std::string_view last = rest.substr(repo_end + 1);
  if (rest[repo_end] == ':') {
    if (!IsName(last, kQuantBytesMax)) return error("what follows ':' is no quantisation");
    reference.quant = last;
    return reference;
  }
  if (const Status status = CheckRepositoryPath(last); !status.ok()) return error(status.message());
  if (!IsGgufName(last)) return error("the file does not end in .gguf");
  reference.file = last;
  return reference;
}

std::string ModelReferenceText(const ModelReference& reference) {
  std::string text = std::string(kScheme) + reference.Repository();
  if (!reference.file.empty()) return text + "/" + reference.file;
  if (!reference.quant.empty()) return text + ":" + reference.quant;
  return text;
}

}  // namespace remontoir
