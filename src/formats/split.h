// Names and numbering of a model that is cut into several GGUF files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/metadata.h"

namespace remontoir {

// What a part says about itself; a file without split keys is part 0 of 1.
struct SplitKeys {
  uint64_t part = 0;                // split.no, from 0
  uint64_t count = 1;               // split.count
  std::optional<uint64_t> tensors;  // split.tensors.count, of all parts
};

// Errors name the key.
Result<SplitKeys> ReadSplitKeys(const Metadata& metadata);

// "-00002-of-00003.gguf" for part 1 of 3.
std::string SplitSuffix(uint64_t part, uint64_t count);

// The path of another part, given the path and number of one of them. FailedPrecondition, naming
// the ending it looked for, when the path doesn't end as that part's should.
Result<std::string> SplitPartPath(std::string_view path, const SplitKeys& keys, uint64_t part);

}  // namespace remontoir
