// What a person types for a model in a hub: hf:OWNER/REPO, with a file or a quantisation.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace remontoir {

// Only ParseModelReference makes one, so its parts are safe as parts of a path and of a URL.
struct ModelReference {
  std::string owner;
  std::string repo;
  std::string file;   // inside the repository, may have folders; empty: chosen from the list
  std::string quant;  // such as Q4_K_M, as it was typed; empty: the default preference

  std::string Repository() const { return owner + "/" + repo; }
};

// hf:OWNER/REPO, hf:OWNER/REPO/[FOLDER/]FILE.gguf or hf:OWNER/REPO:QUANT; `hf:` may be left out.
// Errors quote the reference and say which part is wrong.
Result<ModelReference> ParseModelReference(std::string_view text);

// The reference as ParseModelReference reads it, with `hf:`.
std::string ModelReferenceText(const ModelReference& reference);

// Ok for a relative path of at most 8 parts and 1,024 bytes whose parts are UTF-8, start with no
// dot, and hold no control character, backslash or colon: one that can't leave the folder it is put
// in.
Status CheckRepositoryPath(std::string_view path);

// Ends in .gguf, in any case of letters.
bool IsGgufName(std::string_view name);

}  // namespace remontoir
