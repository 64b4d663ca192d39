// Shows a download in the terminal and lets Ctrl-C end it.
#include "apps/pull.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "apps/progress_bar.h"
#include "apps/signal_waiter.h"
#include "base/log.h"
#include "hub/pull.h"
#include "hub/repository.h"
#include "hub/settings.h"
#include "hub/store.h"

namespace remontoir {
namespace {

using Say = std::function<void(std::string_view)>;

// One bar for each file that is downloaded, and one for each that is checked.
class PullDisplay {
 public:
  PullDisplay(const Clock& clock, const Say& say) : clock_(clock), say_(say) {}

  void Show(const PullProgress& progress) {
    const std::pair<int, bool> shown = {progress.part, progress.progress.checking};
    if (!bar_ || shown != shown_) {
      bar_.reset();  // clears its line before the next is drawn
      bar_.emplace(LabelOf(progress), clock_, TerminalWriter());
      shown_ = shown;
    }
    bar_->Update(progress.progress.done_bytes, progress.progress.total_bytes,
                 ProgressDetail(progress.progress));
  }

  void Note(std::string_view note) {
    bar_.reset();
    say_(note);
  }

 private:
  static std::string LabelOf(const PullProgress& progress) {
    const std::string label = progress.progress.checking ? "checking" : "downloading";
    if (progress.parts == 1) return label;
    return label + " " + std::to_string(progress.part) + "/" + std::to_string(progress.parts);
  }

  const Clock& clock_;
  const Say& say_;
  std::optional<ProgressBar> bar_;
  std::pair<int, bool> shown_;
};

std::string Outcome(const PulledModel& pulled) {
  if (pulled.already_there) return "already in the store";
  return "downloaded " + SizeText(pulled.size_bytes) +
         (pulled.all_checked ? ", SHA-256 right"
                             : "; the server tells no SHA-256, so only the length was checked");
}

// Returns the model's path.
Result<std::string> PullWithDisplay(const ModelReference& reference, const HubSettings& settings,
                                    const Clock& clock, const std::atomic<bool>& cancel,
                                    const Say& say) {
  say("pulling " + ModelReferenceText(reference) + " from " + settings.endpoint.text);
  PullDisplay display(clock, say);
  PullOptions options;
  options.on_progress = [&](const PullProgress& progress) { display.Show(progress); };
  options.on_note = [&](std::string_view note) { display.Note(note); };
  REM_ASSIGN_OR_RETURN(const PulledModel pulled,
                       PullModel(reference, settings, options, clock, cancel));
  display.Note(Outcome(pulled));
  return pulled.path;
}

Result<HubSettings> Settings() {
  return ReadHubSettings([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace

std::string ProgressDetail(const DownloadProgress& progress) {
  std::string detail = SizeText(progress.done_bytes) + " of " + SizeText(progress.total_bytes);
  if (progress.checking || progress.bytes_per_s < 1) return detail;
  detail += ", " + SizeText(static_cast<int64_t>(progress.bytes_per_s)) + "/s";
  const auto missing_bytes = static_cast<double>(progress.total_bytes - progress.done_bytes);
  const int64_t seconds = std::llround(missing_bytes / progress.bytes_per_s);
  constexpr int64_t kMinuteS = 60;
  constexpr int64_t kHourS = 60 * kMinuteS;
  if (seconds < 2 * kMinuteS) return detail + ", " + std::to_string(seconds) + " s left";
  if (seconds < 2 * kHourS) return detail + ", " + std::to_string(seconds / kMinuteS) + " min left";
  return detail + ", " + std::to_string(seconds / kHourS) + " h left";
}

Status Pull(const PullCommand& command, std::FILE* out) {
  REM_ASSIGN_OR_RETURN(const ModelReference reference, ParseModelReference(command.reference));
  REM_ASSIGN_OR_RETURN(const HubSettings settings, Settings());
  std::atomic<bool> cancel{false};
  const SignalWaiter signals({SIGINT, SIGTERM}, [&](int) { cancel.store(true); });
  const SystemClock clock;
  const Say say = [](std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  };
  REM_ASSIGN_OR_RETURN(const std::string path,
                       PullWithDisplay(reference, settings, clock, cancel, say));
  std::fprintf(out, "%s\n", path.c_str());
  return Status::Ok();
}

Result<std::string> LocateModel(const std::string& name_or_path, const Clock& clock) {
  // A path needs no store: not even a home.
  std::error_code error;
  if (std::filesystem::exists(name_or_path, error)) return name_or_path;
  REM_ASSIGN_OR_RETURN(const HubSettings settings, Settings());
  REM_ASSIGN_OR_RETURN(const ResolvedModel resolved, ResolveModel(settings.home, name_or_path));
  if (!resolved.pull) return resolved.path;
  const std::atomic<bool> never{false};  // `serve` and `run` end at once when they are told to
  return PullWithDisplay(*resolved.pull, settings, clock, never, LogInfo);
}

}  // namespace remontoir
