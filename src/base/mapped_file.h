// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace remontoir {

class MappedFile {
 public:
  // Opens and maps a regular file; an empty file maps to an empty span.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Tells the system that [offset, offset + size) will not be read again soon.
  void DropPages(size_t offset, size_t size) const;

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace remontoir
