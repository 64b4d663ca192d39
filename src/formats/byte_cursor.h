// Walks through the bytes of a file; nothing is read or promised past their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace remontoir {

// Little-endian, as the files and this build's processors are. `what` names the field in errors.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> Result<T> Read(std::string_view what) {
    if (sizeof(T) > remaining()) return EndsInside(what);
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // The next `size` bytes where they lie.
  Result<std::span<const std::byte>> Take(uint64_t size, std::string_view what);

  // A string with its length in 64 bits before it, where it lies.
  Result<std::string_view> ReadString(std::string_view what);

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

 private:
  static Status EndsInside(std::string_view what);

  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace remontoir
