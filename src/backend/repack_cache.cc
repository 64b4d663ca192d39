// Header, index, parts; written under a temporary name that a lock holds, read in chunks.
#include "backend/repack_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/worker_pool.h"

namespace remontoir {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".panels";
constexpr std::string_view kTemporarySuffix = ".panels.tmp";
constexpr size_t kKeyDigits = 32;
constexpr size_t kFilesMax = 10'000;                 // that are looked at when room is made
constexpr int64_t kBytesCounted = int64_t{1} << 48;  // of one file: their sum can't overflow
constexpr int64_t kPartAlignment = 64;
constexpr int64_t kBatchBytes = int64_t{32} << 20;  // read between two calls of PartsDone
constexpr char kMagic[8] = {'r', 'e', 'm', 'p', 'a', 'n', 'e', 'l'};
constexpr uint32_t kVersion = 1;  // of this layout; that of the panels is in the key

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t part_count;
  ContentHash key;
  ContentHash index_hash;
  int64_t file_bytes;
  int64_t reserved;  // 0
};
static_assert(sizeof(Header) == 64);

struct IndexEntry {
  int64_t bytes;
  ContentHash hash;
};
static_assert(sizeof(IndexEntry) == 24);

// Where everything lies in a file of parts of these sizes.
struct Layout {
  std::vector<int64_t> part_offsets;
  int64_t file_bytes = 0;
};

int64_t RoundUp(int64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

Layout LayoutOf(std::span<const int64_t> part_bytes) {
  Layout layout;
  int64_t end = static_cast<int64_t>(sizeof(Header) + part_bytes.size() * sizeof(IndexEntry));
  for (const int64_t bytes : part_bytes) {
    layout.part_offsets.push_back(RoundUp(end));
    end = layout.part_offsets.back() + bytes;
  }
  layout.file_bytes = end;
  return layout;
}

template <class Byte>
std::vector<int64_t> SizesOf(std::span<const std::span<Byte>> parts) {
  std::vector<int64_t> sizes;
  for (const auto& part : parts) sizes.push_back(static_cast<int64_t>(part.size()));
  return sizes;
}

Header HeaderOf(const ContentHash& key, std::span<const IndexEntry> index, int64_t file_bytes) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.part_count = static_cast<uint32_t>(index.size());
  header.key = key;
  header.index_hash = HashBytes(std::as_bytes(index));
  header.file_bytes = file_bytes;
  return header;
}

Status SystemError(const std::string& path, const char* what) {
  const int error = errno;
  const std::string text = path + ": " + what + ": " + std::strerror(error);
  return error == ENOENT ? NotFound(text) : IoError(text);
}

// A descriptor that closes itself; so a lock on it goes, too.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }
  bool ok() const { return descriptor_ >= 0; }

 private:
  const int descriptor_;
};

// False when the file ends or an error comes before all is read.
bool ReadAt(int descriptor, std::span<std::byte> out, int64_t offset) {
  while (!out.empty()) {
    const ssize_t count = pread(descriptor, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out = out.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

bool WriteAt(int descriptor, std::span<const std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

Status Damaged(const std::string& path, const char* what) {
  return InvalidArgument(path + ": " + what);
}

// The index, when header and index are exactly those of a file of these parts.
Result<std::vector<IndexEntry>> ReadIndex(int descriptor, const std::string& path,
                                          const ContentHash& key,
                                          std::span<const int64_t> part_bytes, int64_t file_bytes) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return SystemError(path, "can't read its size");
  if (!S_ISREG(status.st_mode)) return Damaged(path, "not a regular file");
  if (status.st_size != file_bytes) return Damaged(path, "cut off, or of another length");
  Header header;
  std::vector<IndexEntry> index(part_bytes.size());
  if (!ReadAt(descriptor, std::as_writable_bytes(std::span(&header, 1)), 0) ||
      !ReadAt(descriptor, std::as_writable_bytes(std::span(index)), sizeof(Header))) {
    return Damaged(path, "can't be read");
  }
  const Header expected = HeaderOf(key, index, file_bytes);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return Damaged(path, "no cache file");
  if (header.version != kVersion) return Damaged(path, "of another version");
  if (std::memcmp(&header, &expected, sizeof header) != 0) {
    return Damaged(path, "its header or index is damaged");
  }
  for (size_t part = 0; part < part_bytes.size(); ++part) {
    if (index[part].bytes != part_bytes[part]) return Damaged(path, "holds other parts");
  }
  return index;
}

// Of the files of this cache in `folder`, the unfinished ones that nobody writes any more go; the
// finished ones are returned.
struct KeptFile {
  fs::path path;
  int64_t bytes = 0;
  fs::file_time_type used;
};

bool IsKey(std::string_view text) {
  return text.size() == kKeyDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A new file of a name that mkostemp makes, locked: so others that tidy up know that it is being
// written. Negative, with errno, when that can't be.
int MakeLocked(const std::string& pattern, std::string* path) {
  constexpr int kAttemptsMax = 100;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    *path = pattern;
    const int descriptor = mkostemp(path->data(), O_CLOEXEC);
    if (descriptor < 0) return descriptor;
    // Where files have no locks nobody can tidy up either.
    const bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    struct stat status;
    if (locked && fstat(descriptor, &status) == 0 && status.st_nlink > 0) return descriptor;
    close(descriptor);  // someone tidied up between the two calls
  }
  errno = EBUSY;
  return -1;
}

void RemoveUnlessWritten(const fs::path& path) {
  const OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.ok() && flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
}

std::vector<KeptFile> TidyFolder(const std::string& folder) {
  std::vector<KeptFile> kept;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error);
       !error && entry != fs::directory_iterator() && kept.size() < kFilesMax;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code failed;
    if (name.size() < kKeyDigits || !IsKey(std::string_view(name).substr(0, kKeyDigits)) ||
        entry->symlink_status(failed).type() != fs::file_type::regular) {
      continue;
    }
    const std::string_view rest = std::string_view(name).substr(kKeyDigits);
    if (rest.starts_with(kTemporarySuffix)) RemoveUnlessWritten(entry->path());
    if (rest != kSuffix) continue;
    KeptFile file{entry->path(), 0, {}};
    const auto bytes = static_cast<int64_t>(entry->file_size(failed));
    if (failed) continue;
    file.bytes = std::min(bytes, kBytesCounted);
    file.used = entry->last_write_time(failed);
    if (!failed) kept.push_back(std::move(file));
  }
  return kept;
}

}  // namespace

std::string RepackCache::PathOf(const ContentHash& key) const {
  return options_.folder + "/" + key.Hex() + std::string(kSuffix);
}

bool RepackCache::MayHold(std::span<const int64_t> part_bytes) const {
  return !options_.folder.empty() && LayoutOf(part_bytes).file_bytes <= options_.bytes_max;
}

Status RepackCache::Load(const ContentHash& key, std::span<const std::span<std::byte>> parts,
                         WorkerPool& pool, const PartsDone& parts_done) const {
  const std::string path = PathOf(key);
  const std::vector<int64_t> sizes = SizesOf(parts);
  const Layout layout = LayoutOf(sizes);
  // Not through a link, and without waiting for the other end of a pipe.
  const OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.ok()) return SystemError(path, "can't be opened");
  REM_ASSIGN_OR_RETURN(const std::vector<IndexEntry> index,
                       ReadIndex(file.get(), path, key, sizes, layout.file_bytes));
  for (size_t first = 0; first < parts.size();) {
    size_t end = first;
    for (int64_t bytes = 0; end < parts.size() && bytes < kBatchBytes; ++end) bytes += sizes[end];
    const auto chunks = CutIntoChunks(std::span(sizes).subspan(first, end - first));
    std::vector<ContentHash> chunk_hashes(chunks.size());
    std::atomic<bool> all_read{true};
    pool.ParallelFor(static_cast<int32_t>(chunks.size()), [&](int32_t i) {
      const PartChunk& chunk = chunks[static_cast<size_t>(i)];
      const size_t part = first + chunk.part;
      const auto out =
          parts[part].subspan(static_cast<size_t>(chunk.begin), static_cast<size_t>(chunk.bytes));
      if (!ReadAt(file.get(), out, layout.part_offsets[part] + chunk.begin)) all_read = false;
      chunk_hashes[static_cast<size_t>(i)] = HashBytes(out);
    });
    if (!all_read) return Damaged(path, "can't be read to its end");
    const auto hashes = JoinHashes(chunks, chunk_hashes, end - first);
    for (size_t part = first; part < end; ++part) {
      if (hashes[part - first] != index[part].hash) return Damaged(path, "its weights are damaged");
    }
    if (parts_done) parts_done(end);
    first = end;
  }
  // What was used last goes last. Best effort: the file may belong to someone else.
  (void)futimens(file.get(), nullptr);
  return Status::Ok();
}

Status RepackCache::Store(const ContentHash& key, std::span<const std::span<const std::byte>> parts,
                          WorkerPool& pool) const {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) return IoError(options_.folder + ": can't be made: " + error.message());
  const int64_t file_bytes = LayoutOf(SizesOf(parts)).file_bytes;
  if (file_bytes > options_.bytes_max) {
    return ResourceExhausted(std::to_string(file_bytes) +
                             " bytes are more than the cache may hold");
  }
  const std::string path = PathOf(key);
  MakeRoom(file_bytes);
  const std::string pattern =
      options_.folder + "/" + key.Hex() + std::string(kTemporarySuffix) + ".XXXXXX";
  std::string temporary = pattern;
  const OpenFile file(MakeLocked(pattern, &temporary));
  if (!file.ok()) return SystemError(options_.folder, "can't be written to");
  Status status = WriteFile(file.get(), temporary, key, parts, pool);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = SystemError(path, "can't be given its name");
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const OpenFile folder(open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.ok()) (void)fsync(folder.get());  // else the name may be lost in a crash: no harm
  MakeRoom(0);                                 // others may have stored something in the meantime
  return Status::Ok();
}

Status RepackCache::WriteFile(int descriptor, const std::string& path, const ContentHash& key,
                              std::span<const std::span<const std::byte>> parts,
                              WorkerPool& pool) const {
  const std::vector<int64_t> sizes = SizesOf(parts);
  const Layout layout = LayoutOf(sizes);
  // Tells at once that a disk is full, where the file system can.
  if (fallocate(descriptor, 0, 0, layout.file_bytes) != 0 && errno != EOPNOTSUPP) {
    return SystemError(path, "can't be written");
  }
  const std::vector<ContentHash> hashes = HashParts(parts, pool);
  std::vector<IndexEntry> index;
  for (size_t part = 0; part < parts.size(); ++part) index.push_back({sizes[part], hashes[part]});
  const Header header = HeaderOf(key, index, layout.file_bytes);
  bool written = WriteAt(descriptor, std::as_bytes(std::span(&header, 1)), 0) &&
                 WriteAt(descriptor, std::as_bytes(std::span(index)), sizeof(Header));
  for (size_t part = 0; written && part < parts.size(); ++part) {
    written = WriteAt(descriptor, parts[part], layout.part_offsets[part]);
  }
  if (!written || fsync(descriptor) != 0) return SystemError(path, "can't be written");
  return Status::Ok();
}

// Removes what was not used for longest until `bytes` more are within the bound.
void RepackCache::MakeRoom(int64_t bytes) const {
  std::vector<KeptFile> files = TidyFolder(options_.folder);
  std::sort(files.begin(), files.end(),
            [](const KeptFile& a, const KeptFile& b) { return a.used < b.used; });
  int64_t total = bytes;
  for (const KeptFile& file : files) total += file.bytes;
  for (const KeptFile& file : files) {
    if (total <= options_.bytes_max) return;
    std::error_code error;
    if (fs::remove(file.path, error)) total -= file.bytes;
  }
}

}  // namespace remontoir
