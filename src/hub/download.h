// One file from a URL to its final name: attempts, resume, checks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "hub/fetcher.h"
#include "hub/transfer_rules.h"

namespace remontoir {

struct DownloadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;  // 0: not known
  double bytes_per_s = 0;
  bool checking = false;  // downloaded; its SHA-256 is computed
};

// What a download needs from around it. `cancel` keeps what came for a later resume.
struct DownloadContext {
  Fetcher& fetcher;
  const Clock& clock;
  const std::atomic<bool>& cancel;
  RetryPolicy retry;
  std::function<void(const DownloadProgress&)> on_progress;  // may be empty; ten times a second
  std::function<void(std::string_view)> on_note;             // may be empty; "retrying in ..."
};

struct DownloadTask {
  Url url;
  std::string final_path;
  Expectation listed;    // what the repository's list says
  bool replace = false;  // a file under the final name is out of date
  Question question;
};

struct DownloadedFile {
  int64_t size_bytes = 0;
  bool already_there = false;  // another process finished it meanwhile
  bool sha256_checked = false;
};

// The file is under its final name only when its length, and its SHA-256 where one is known, are
// right. Errors name the file or the server and say what to do where something can be done.
Result<DownloadedFile> Download(const DownloadTask& task, const DownloadContext& context);

// A small text such as a list of files, at most `bytes_max`, with the same attempts.
Result<std::string> FetchText(const Url& url, int64_t bytes_max, const Question& question,
                              const DownloadContext& context);

}  // namespace remontoir
