// What a repository of the hub holds, and which of its files a reference means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hub/model_reference.h"

namespace remontoir {

struct RepositoryFile {
  std::string name;                   // inside the repository, may have folders
  std::optional<int64_t> size_bytes;  // nothing: not told
  std::string sha256;                 // 64 lower-case hex digits; empty: not told
};

// The GGUF files of an answer of /api/models/OWNER/REPO?blobs=true, in its order. Names that could
// leave the store are left out. Errors name the field.
Result<std::vector<RepositoryFile>> ParseRepositoryListing(std::string_view json);

// The one file that a reference means, or all parts of a split model in order:
//   with a file: that one;
//   with a quantisation: the model whose name holds it as a word, in any case of letters;
//   with neither: Q4_K_M, else Q4_0, else Q8_0, else the first in the order of names.
// Projectors and importance matrices (mmproj*, *imatrix*) are chosen only by file. NotFound and
// InvalidArgument (several fit, a part is missing) list what there is.
Result<std::vector<RepositoryFile>> ChooseFiles(const ModelReference& reference,
                                                const std::vector<RepositoryFile>& listed);

// "a.gguf (98 MB), b.gguf and 3 more", for errors.
std::string DescribeFiles(const std::vector<RepositoryFile>& files);

// "98 MB", "4.2 GB": decimal, as the hub shows sizes.
std::string SizeText(int64_t bytes);

// The 64 hex digits in lower case when the text is a SHA-256, with or without "sha256:", quotes or
// W/ around them; else empty.
std::string Sha256FromText(std::string_view text);

}  // namespace remontoir
