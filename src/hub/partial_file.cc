// flock on FILE.partial itself, so that no lock file stays behind; the sidecar is a line of JSON.
#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace remontoir {
namespace {

namespace json = boost::json;

constexpr int64_t kCheckpointBytes = 16 << 20;
constexpr int64_t kSidecarBytesMax = 16 << 10;
constexpr auto kLockPoll = std::chrono::milliseconds(100);

std::string PathOf(const std::string& final_path, std::string_view suffix) {
  return final_path + std::string(suffix);
}

Status SystemError(const std::string& path, std::string_view what) {
  const int error = errno;
  const std::string message = path + ": " + std::string(what) + ": " + std::strerror(error);
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return full ? ResourceExhausted(message) : IoError(message);
}

std::string StringOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return std::string(value->get_string());
}

std::optional<int64_t> NumberOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return std::nullopt;
  return value->get_int64();
}

// The path still leads to the open file: nobody renamed or removed it.
bool IsSameFile(int descriptor, const std::string& path) {
  struct stat opened;
  struct stat named;
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

Status SyncFolder(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(folder, "cannot be opened");
  const int result = fsync(descriptor);
  const Status status = result == 0 ? Status::Ok() : SystemError(folder, "cannot be written");
  close(descriptor);
  return status;
}

Status Lock(int descriptor, const std::string& path, const PartialFile::LockWait& wait) {
  bool said = false;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return SystemError(path, "cannot be locked");
    if (!said) wait.on_wait();
    said = true;
    if (!wait.go_on()) return Cancelled(path + ": stopped while another process downloads it");
    std::this_thread::sleep_for(kLockPoll);
  }
  return Status::Ok();
}

}  // namespace

PartialState ReadSidecar(const std::string& final_path) {
  PartialState state;
  std::ifstream file(PathOf(final_path, kSidecarSuffix), std::ios::binary);
  std::string text(kSidecarBytesMax, '\0');
  file.read(text.data(), kSidecarBytesMax);
  text.resize(static_cast<size_t>(file.gcount()));
  try {
    boost::system::error_code error;
    const json::value value = json::parse(text, error);
    if (error || !value.is_object()) return state;
    const json::object& object = value.get_object();
    state.bytes = NumberOf(object, "bytes").value_or(0);
    state.etag = StringOf(object, "etag");
    state.expected.sha256 = StringOf(object, "sha256");
    state.expected.size_bytes = NumberOf(object, "size");
  } catch (const std::exception&) {
    return {};
  }
  return state;
}

Status RemovePartial(const std::string& final_path) {
  const std::string path = PathOf(final_path, kPartialSuffix);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor >= 0) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      close(descriptor);
      return FailedPrecondition(final_path + " is being downloaded: stop that first");
    }
  }
  unlink(PathOf(final_path, kSidecarSuffix).c_str());
  unlink(path.c_str());
  if (descriptor >= 0) close(descriptor);
  return Status::Ok();
}

Result<std::unique_ptr<PartialFile>> PartialFile::Open(const std::string& final_path,
                                                       const LockWait& wait) {
  const std::filesystem::path folder = std::filesystem::path(final_path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return IoError(folder.string() + ": cannot be made: " + error.message());
  const std::string path = PathOf(final_path, kPartialSuffix);
  while (true) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) return SystemError(path, "cannot be opened");
    if (const Status status = Lock(descriptor, path, wait); !status.ok()) {
      close(descriptor);
      return status;
    }
    // Whoever held the lock may have given the file its final name.
    if (IsSameFile(descriptor, path)) {
      std::unique_ptr<PartialFile> partial(new PartialFile(final_path, descriptor));
      // Bytes that the sidecar doesn't vouch for may be holes after a crash.
      if (ftruncate(descriptor, partial->state_.bytes) != 0) {
        return SystemError(path, "cannot be cut");
      }
      return partial;
    }
    close(descriptor);
  }
}

PartialFile::PartialFile(std::string final_path, int descriptor)
    : final_path_(std::move(final_path)),
      path_(PathOf(final_path_, kPartialSuffix)),
      descriptor_(descriptor),
      state_(ReadSidecar(final_path_)) {
  struct stat file;
  const int64_t size = fstat(descriptor_, &file) == 0 ? file.st_size : 0;
  state_.bytes = std::min(state_.bytes, size);
  durable_bytes_ = state_.bytes;
}

PartialFile::~PartialFile() {
  if (on_disk_ && state_.bytes == 0) Discard();
  close(descriptor_);
}

Status PartialFile::Begin(const std::string& etag, const Expectation& expected) {
  state_ = {0, etag, expected};
  durable_bytes_ = 0;
  if (ftruncate(descriptor_, 0) != 0) return SystemError(path_, "cannot be cut");
  return WriteSidecar();
}

Status PartialFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), state_.bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path_, "cannot be written");
    state_.bytes += count;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return state_.bytes - durable_bytes_ >= kCheckpointBytes ? Checkpoint() : Status::Ok();
}

Status PartialFile::Checkpoint() {
  if (state_.bytes == durable_bytes_) return Status::Ok();
  if (fdatasync(descriptor_) != 0) return SystemError(path_, "cannot be written");
  durable_bytes_ = state_.bytes;
  return WriteSidecar();
}

Status PartialFile::WriteSidecar() const {
  json::object object;
  object["bytes"] = durable_bytes_;
  object["etag"] = state_.etag;
  object["sha256"] = state_.expected.sha256;
  if (state_.expected.size_bytes) object["size"] = *state_.expected.size_bytes;
  const std::string path = PathOf(final_path_, kSidecarSuffix);
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << json::serialize(object) << '\n';
  file.close();
  return file.fail() ? SystemError(path, "cannot be written") : Status::Ok();
}

Status PartialFile::Publish() {
  if (fsync(descriptor_) != 0) return SystemError(path_, "cannot be written");
  if (!IsSameFile(descriptor_, path_)) {
    return FailedPrecondition(path_ + " was removed or replaced during the download");
  }
  // Before the name: from then on the next download of this file may write a sidecar of its own.
  unlink(PathOf(final_path_, kSidecarSuffix).c_str());
  if (rename(path_.c_str(), final_path_.c_str()) != 0) {
    return SystemError(final_path_, "cannot be given its name");
  }
  on_disk_ = false;
  return SyncFolder(final_path_);
}

void PartialFile::Discard() {
  unlink(PathOf(final_path_, kSidecarSuffix).c_str());
  unlink(path_.c_str());
  on_disk_ = false;
  state_.bytes = 0;
}

}  // namespace remontoir
