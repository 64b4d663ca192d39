// The checked steps of ByteCursor.
#include "formats/byte_cursor.h"

namespace remontoir {

Status ByteCursor::EndsInside(std::string_view what) {
  return InvalidArgument("truncated: the file ends inside " + std::string(what));
}

Result<std::span<const std::byte>> ByteCursor::Take(uint64_t size, std::string_view what) {
  if (size > remaining()) {
    return InvalidArgument(std::string(what) + ": a length of " + std::to_string(size) +
                           " bytes, but only " + std::to_string(remaining()) +
                           " are left in the file");
  }
  const auto taken = bytes_.subspan(offset_, size);
  offset_ += size;
  return taken;
}

Result<std::string_view> ByteCursor::ReadString(std::string_view what) {
  REM_ASSIGN_OR_RETURN(const uint64_t size, Read<uint64_t>(what));
  REM_ASSIGN_OR_RETURN(const auto bytes, Take(size, what));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace remontoir
