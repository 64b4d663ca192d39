// The order of lines on the event loop, the file on a thread of its own.
#include "server/arrival_writer.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"

namespace remontoir {
namespace {

constexpr char kNames[] = "t_us,prompt_tokens,output_tokens,client_cell,device\n";
constexpr auto kWritePeriod = std::chrono::milliseconds(500);
constexpr size_t kLineBytesMax = 112;
constexpr size_t kWriteAtBytes = 64 << 10;

// The file and its predecessor. Used by one thread.
class RotatedFile {
 public:
  RotatedFile(std::string path, int64_t bytes_max)
      : path_(std::move(path)), bytes_max_(bytes_max) {}
  ~RotatedFile() { Close(); }
  RotatedFile(const RotatedFile&) = delete;
  RotatedFile& operator=(const RotatedFile&) = delete;

  // Whole lines.
  Status Append(std::string_view lines) {
    while (!lines.empty()) {
      if (descriptor_ < 0) REM_RETURN_IF_ERROR(Open());
      const size_t size = SizeThatFits(lines);
      if (size == 0) {
        REM_RETURN_IF_ERROR(Rotate());
        continue;
      }
      REM_RETURN_IF_ERROR(WriteAll(lines.substr(0, size)));
      lines.remove_prefix(size);
    }
    return Status::Ok();
  }

 private:
  Status Error(const char* what) const {
    return IoError(path_ + ": " + what + ": " + std::strerror(errno));
  }

  Status Open() {
    // Not to wait for the reader of a pipe.
    descriptor_ =
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (descriptor_ < 0) return Error("can't be opened");
    struct stat facts = {};
    if (::fstat(descriptor_, &facts) != 0) return Error("can't be read");
    if (!S_ISREG(facts.st_mode)) return IoError(path_ + ": is not a file");
    bytes_ = facts.st_size;
    REM_RETURN_IF_ERROR(CutLine());
    return bytes_ > 0 ? Status::Ok() : WriteAll(kNames);
  }

  // The last line of a process that broke off may lack its end.
  Status CutLine() {
    std::array<char, 2 * kLineBytesMax> tail;
    const int reader = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (reader < 0) return Error("can't be read");
    const int64_t begin = std::max<int64_t>(bytes_ - static_cast<int64_t>(tail.size()), 0);
    const ssize_t size = ::pread(reader, tail.data(), tail.size(), begin);
    ::close(reader);
    if (size < 0) return Error("can't be read");
    const size_t end = std::string_view(tail.data(), static_cast<size_t>(size)).rfind('\n');
    const int64_t whole = end == std::string_view::npos ? 0 : begin + static_cast<int64_t>(end) + 1;
    if (whole == bytes_) return Status::Ok();
    if (whole == 0) return IoError(path_ + ": holds something else than lines of arrivals");
    if (::ftruncate(descriptor_, whole) != 0) return Error("can't be cut");
    bytes_ = whole;
    return Status::Ok();
  }

  // Of as many lines as the file may still hold; at least one in a file that is new.
  size_t SizeThatFits(std::string_view lines) const {
    const int64_t room = bytes_max_ / 2 - bytes_;
    if (static_cast<int64_t>(lines.size()) <= room) return lines.size();
    const size_t last =
        room <= 0 ? std::string_view::npos : lines.rfind('\n', static_cast<size_t>(room) - 1);
    if (last != std::string_view::npos) return last + 1;
    return is_new() ? lines.find('\n') + 1 : 0;
  }
  bool is_new() const { return bytes_ <= static_cast<int64_t>(sizeof kNames - 1); }

  Status Rotate() {
    Close();
    if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) return Error("can't be renamed");
    return Status::Ok();
  }

  Status WriteAll(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Error("can't be written");
      bytes_ += written;
      text.remove_prefix(static_cast<size_t>(written));
    }
    return Status::Ok();
  }

  void Close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  const std::string path_;
  const int64_t bytes_max_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace

ArrivalWriter::ArrivalWriter(ArrivalWriterOptions options, const Clock& clock)
    : options_(std::move(options)),
      unix_us_at_zero_(clock.UnixSeconds() * 1'000'000 - clock.Now().us),
      salt_{SystemRandomBits(), SystemRandomBits()} {
  thread_ = std::thread([this] { Run(); });
}

ArrivalWriter::~ArrivalWriter() {
  while (!entries_.empty()) WriteFirst();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

int32_t ArrivalWriter::CellOf(std::string_view client) const {
  std::string salted(sizeof salt_, '\0');
  std::memcpy(salted.data(), salt_.data(), sizeof salt_);
  salted += client;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  REM_CHECK(
      EVP_Digest(salted.data(), salted.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1,
      "OpenSSL has SHA-256");
  return digest[0] % kClientCells;
}

ArrivalWriter::Ticket ArrivalWriter::Begin(TimePoint arrived, int64_t prompt_tokens,
                                     std::string_view client) {
  if (entries_.size() >= options_.unended_max) WriteFirst();
  entries_.push_back({.unix_us = unix_us_at_zero_ + arrived.us,
                      .prompt_tokens = prompt_tokens,
                      .client_cell = CellOf(client)});
  return first_ticket_ + entries_.size() - 1;
}

void ArrivalWriter::End(Ticket ticket, int64_t output_tokens) {
  if (ticket < first_ticket_) return;  // written without its end
  Entry& entry = entries_.at(ticket - first_ticket_);
  entry.output_tokens = output_tokens;
  entry.ended = true;
  while (!entries_.empty() && entries_.front().ended) WriteFirst();
}

void ArrivalWriter::WriteFirst() {
  const Entry& entry = entries_.front();
  char line[kLineBytesMax];
  const int length = std::snprintf(line, sizeof line, "%lld,%lld,%lld,%d,\n",
                                   static_cast<long long>(entry.unix_us),
                                   static_cast<long long>(entry.prompt_tokens),
                                   static_cast<long long>(entry.output_tokens), entry.client_cell);
  entries_.pop_front();
  ++first_ticket_;
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  if (unwritten_.size() + length > options_.unwritten_bytes_max) {
    lost_ = true;
    return;
  }
  unwritten_.append(line, static_cast<size_t>(length));
  if (unwritten_.size() >= kWriteAtBytes) wake_.notify_one();
}

void ArrivalWriter::Run() {
  RotatedFile file(options_.path, options_.bytes_max);
  std::string lines;
  bool told_of_loss = false;
  for (bool last = false; !last;) {
    bool lost = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kWritePeriod,
                     [this] { return closing_ || unwritten_.size() >= kWriteAtBytes; });
      lines.clear();
      std::swap(lines, unwritten_);
      last = closing_;
      lost = std::exchange(lost_, false);
    }
    if (lost && !std::exchange(told_of_loss, true)) {
      LogWarning("telemetry.arrival_log: the disk is too slow, lines are lost");
    }
    const Status status = file.Append(lines);
    if (status.ok()) continue;
    LogWarning("telemetry.arrival_log: " + std::string(status.message()) +
               "; no more arrivals are logged");
    const std::lock_guard lock(mutex_);
    failed_ = true;
    unwritten_.clear();
    return;
  }
}

}  // namespace remontoir
