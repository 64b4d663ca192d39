// From a reference to a complete model in the store.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "hub/download.h"
#include "hub/fetcher.h"
#include "hub/model_reference.h"
#include "hub/settings.h"
#include "hub/transfer_rules.h"

namespace remontoir {

struct PullProgress {
  std::string_view file;  // inside the repository
  int part = 1;           // of `parts`
  int parts = 1;
  DownloadProgress progress;  // of this file
};

struct PullOptions {
  RetryPolicy retry;
  FetchLimits limits;
  std::function<void(const PullProgress&)> on_progress;  // may be empty
  std::function<void(std::string_view)> on_note;         // may be empty: waiting, retrying
};

struct PulledModel {
  std::string path;  // of the (first) file
  int64_t size_bytes = 0;
  bool already_there = false;  // nothing was downloaded
  bool all_checked = false;    // every file that was downloaded had a SHA-256 to meet
};

// Downloads what isn't in the store. A reference with a file means that file (and the other parts
// of a split model): what is there is taken as it is, and the repository's list is asked only for
// sizes and digests. One without needs the list, and downloads again when the size of a file has
// changed; when the hub can't be reached it takes what is in the store. `cancel` ends it within a
// tenth of a second and keeps what came.
Result<PulledModel> PullModel(const ModelReference& reference, const HubSettings& settings,
                              const PullOptions& options, const Clock& clock,
                              const std::atomic<bool>& cancel);

}  // namespace remontoir
