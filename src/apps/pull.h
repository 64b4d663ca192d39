// `remontoir pull`, and what `serve` and `run` do about a model that isn't a path.
#pragma once

#include <cstdio>
#include <string>

#include "apps/hub_options.h"
#include "base/clock.h"
#include "base/status.h"
#include "hub/download.h"

namespace remontoir {

// Brings a model into the store and prints its path to `out`; progress and notes go to stderr.
// SIGINT and SIGTERM end it with kCancelled and keep what came.
Status Pull(const PullCommand& command, std::FILE* out);

// The file that a path, a name in the store or an hf: reference means; a reference that isn't in
// the store is pulled first, with a progress bar when stderr is a terminal.
Result<std::string> LocateModel(const std::string& name_or_path, const Clock& clock);

// "12 of 98 MB, 3.4 MB/s, 25 s left", for the end of a progress bar.
std::string ProgressDetail(const DownloadProgress& progress);

}  // namespace remontoir
