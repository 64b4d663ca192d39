// mmap behind MappedFile.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace remontoir {
namespace {

constexpr size_t kSystemPageBytes = 4096;

Status ErrnoError(const std::string& path, const char* what) {
  const int error = errno;
  const std::string text = path + ": " + what + ": " + std::strerror(error);
  return error == ENOENT ? NotFound(text) : IoError(text);
}

Result<std::span<const std::byte>> MapDescriptor(int descriptor, const std::string& path) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return ErrnoError(path, "can't read its size");
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": not a regular file");
  if (info.st_size == 0) return std::span<const std::byte>();
  const auto size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return ErrnoError(path, "can't map it");
  return std::span<const std::byte>(static_cast<const std::byte*>(address), size);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return ErrnoError(path, "can't open it");
  auto bytes = MapDescriptor(descriptor, path);
  close(descriptor);
  if (!bytes.ok()) return bytes.status();
  MappedFile file;
  file.path_ = path;
  file.bytes_ = *bytes;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::DropPages(size_t offset, size_t size) const {
  const size_t begin = (offset + kSystemPageBytes - 1) / kSystemPageBytes * kSystemPageBytes;
  const size_t end = std::min(offset + size, bytes_.size()) / kSystemPageBytes * kSystemPageBytes;
  if (begin >= end) return;
  madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace remontoir
