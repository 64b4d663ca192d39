// Reads metadata entries of a GGUF file.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "formats/byte_cursor.h"
#include "formats/metadata.h"

namespace remontoir {

// Key, type and value at the cursor. Errors name the key, or say that the key itself is wrong.
Result<Metadata::Entry> ReadMetadataEntry(ByteCursor& cursor);

// A key or a tensor's name: not empty, valid UTF-8, at most bytes_max bytes.
Status CheckName(std::string_view name, size_t bytes_max);

}  // namespace remontoir
