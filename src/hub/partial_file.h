// A file on its way: FILE.partial with a sidecar, locked, and renamed only when it is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "hub/transfer_rules.h"

namespace remontoir {

inline constexpr std::string_view kPartialSuffix = ".partial";
inline constexpr std::string_view kSidecarSuffix = ".partial.json";

// What the sidecar of FILE says; nothing known when there is none or it is damaged.
PartialState ReadSidecar(const std::string& final_path);

// Removes FILE.partial and its sidecar. FailedPrecondition while a download holds them.
Status RemovePartial(const std::string& final_path);

class PartialFile {
 public:
  // How Open behaves while another process downloads the same file.
  struct LockWait {
    std::function<void()> on_wait;  // called once, before waiting
    std::function<bool()> go_on;    // asked ten times a second; no: kCancelled
  };

  // Makes the folders of FILE, opens or makes FILE.partial and takes its lock, waiting for it.
  // Errors name the path.
  static Result<std::unique_ptr<PartialFile>> Open(const std::string& final_path,
                                                   const LockWait& wait);
  ~PartialFile();  // keeps what is on disk, for a later Open; removes an empty file
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // What is on disk; `bytes` counts what Append added too.
  const PartialState& state() const { return state_; }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

  // Cuts the file to nothing, then says in the sidecar what is to come.
  Status Begin(const std::string& etag, const Expectation& expected);
  // A full disk is kResourceExhausted. Every 16 MB the bytes are made durable and the sidecar says
  // so: only such bytes count after a crash.
  Status Append(std::string_view bytes);
  Status Checkpoint();

  // The file gets its final name, durably; the sidecar goes.
  Status Publish();
  // Both files go.
  void Discard();

 private:
  PartialFile(std::string final_path, int descriptor);
  Status WriteSidecar() const;

  const std::string final_path_;
  const std::string path_;
  const int descriptor_;
  PartialState state_;
  int64_t durable_bytes_ = 0;
  bool on_disk_ = true;  // neither published nor discarded
};

}  // namespace remontoir
