// The loop of attempts: asks, writes what comes, does what the rules say next.
#include "hub/download.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "hub/partial_file.h"
#include "hub/repository.h"
#include "hub/sha256.h"
#include "hub/transfer_meter.h"

namespace remontoir {
namespace {

constexpr int64_t kProgressIntervalUs = 100'000;
constexpr auto kWaitStep = std::chrono::milliseconds(50);

bool Stopped(const DownloadContext& context) {
  return context.cancel.load(std::memory_order_relaxed);
}

void Note(const DownloadContext& context, const std::string& text) {
  if (context.on_note) context.on_note(text);
}

// Waits before the next attempt; kCancelled when told to stop meanwhile.
Status WaitFor(int64_t wait_ms, const DownloadContext& context) {
  const TimePoint start = context.clock.Now();
  while (ElapsedUs(start, context.clock.Now()) < wait_ms * 1000) {
    if (Stopped(context)) return Cancelled("stopped");
    std::this_thread::sleep_for(
        std::min<std::chrono::milliseconds>(kWaitStep, std::chrono::milliseconds(wait_ms)));
  }
  return Status::Ok();
}

Status PrepareNext(const NextStep& step, const DownloadContext& context) {
  if (step.wait_ms < 1000) {
    Note(context, step.error.message() + "; trying again");
  } else {
    Note(context, step.error.message() + "; trying again in " +
                      std::to_string((step.wait_ms + 500) / 1000) + " s");
  }
  return WaitFor(step.wait_ms, context);
}

Status CheckRoom(const PartialFile& partial, const Expectation& expected) {
  struct statvfs system;
  if (!expected.size_bytes || fstatvfs(partial.descriptor(), &system) != 0) return Status::Ok();
  const auto free_bytes =
      static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_frsize);
  const int64_t missing_bytes = *expected.size_bytes - partial.state().bytes;
  if (missing_bytes <= free_bytes) return Status::Ok();
  return ResourceExhausted(partial.path() + ": " + SizeText(missing_bytes) +
                           " are to come, but the disk has room for " + SizeText(free_bytes));
}

// Draws at most ten times a second.
class ProgressReport {
 public:
  explicit ProgressReport(const DownloadContext& context)
      : context_(context), rate_(context.clock.Now()) {}

  void Received(int64_t bytes, int64_t done, const Expectation& expected) {
    progress_.bytes_per_s = rate_.Add(context_.clock.Now(), bytes);
    Report(done, expected.size_bytes.value_or(0), false);
  }
  void Checked(int64_t done, int64_t total) { Report(done, total, true); }

 private:
  void Report(int64_t done, int64_t total, bool checking) {
    const TimePoint now = context_.clock.Now();
    const bool last = done == total || checking != progress_.checking;
    if (!context_.on_progress) return;
    if (!last && reported_ && ElapsedUs(last_, now) < kProgressIntervalUs) return;
    progress_.done_bytes = done;
    progress_.total_bytes = total;
    progress_.checking = checking;
    reported_ = true;
    last_ = now;
    context_.on_progress(progress_);
  }

  const DownloadContext& context_;
  RateMeter rate_;
  DownloadProgress progress_;
  bool reported_ = false;
  TimePoint last_;
};

// Writes an answer into the partial file as the rules say.
class FileSink final : public FetchSink {
 public:
  FileSink(const DownloadTask& task, int64_t offset, PartialFile& partial, ProgressReport& progress)
      : task_(task), offset_(offset), partial_(partial), progress_(progress) {
    end_.decision.action = ResponseAction::kRetry;
  }

  bool OnResponse(const ResponseFacts& facts) override {
    end_.decision =
        DecideOnResponse(facts, offset_, partial_.state(), task_.listed, task_.question);
    end_.retry_after_s = facts.retry_after_s;
    const bool from_start = end_.decision.action == ResponseAction::kWriteFromStart;
    if (!from_start && end_.decision.action != ResponseAction::kAppend) return false;
    if (from_start) failure_ = partial_.Begin(facts.etag, end_.decision.expected);
    if (failure_.ok()) failure_ = CheckRoom(partial_, end_.decision.expected);
    return failure_.ok();
  }

  bool OnData(std::string_view bytes) override {
    const auto& size = end_.decision.expected.size_bytes;
    const auto count = static_cast<int64_t>(bytes.size());
    if (size && partial_.state().bytes + count > *size) {
      end_.overflow = true;
      return false;
    }
    failure_ = partial_.Append(bytes);
    progress_.Received(count, partial_.state().bytes, end_.decision.expected);
    return failure_.ok();
  }

  // How it ended, given what the fetcher says.
  AttemptEnd End(Status transfer) && {
    end_.transfer = failure_.ok() ? std::move(transfer) : failure_;
    end_.bytes = partial_.state().bytes;
    return std::move(end_);
  }

 private:
  const DownloadTask& task_;
  const int64_t offset_;
  PartialFile& partial_;
  ProgressReport& progress_;
  AttemptEnd end_;
  Status failure_;
};

class TextSink final : public FetchSink {
 public:
  TextSink(int64_t bytes_max, const Question& question)
      : bytes_max_(bytes_max), question_(question) {
    end_.decision.action = ResponseAction::kRetry;
  }

  bool OnResponse(const ResponseFacts& facts) override {
    end_.decision = DecideOnResponse(facts, 0, {}, {}, question_);
    end_.retry_after_s = facts.retry_after_s;
    return end_.decision.action == ResponseAction::kWriteFromStart;
  }

  bool OnData(std::string_view bytes) override {
    too_long_ = static_cast<int64_t>(text_.size() + bytes.size()) > bytes_max_;
    if (!too_long_) text_ += bytes;
    return !too_long_;
  }

  AttemptEnd End(Status transfer) {
    end_.transfer = std::move(transfer);
    if (too_long_) {
      end_.transfer = ResourceExhausted(question_.what + " has more than " +
                                        std::to_string(bytes_max_) + " bytes");
    }
    end_.bytes = static_cast<int64_t>(text_.size());
    return end_;
  }

  std::string& text() { return text_; }

 private:
  const int64_t bytes_max_;
  const Question& question_;
  std::string text_;
  AttemptEnd end_;
  bool too_long_ = false;
};

class FileDownload {
 public:
  FileDownload(const DownloadTask& task, const DownloadContext& context, PartialFile& partial)
      : task_(task),
        context_(context),
        partial_(partial),
        progress_(context),
        expected_(MergeExpectations(partial.state().expected, task.listed)) {}

  Result<DownloadedFile> Run();

 private:
  NextStep Attempt();
  NextStep Check();

  const DownloadTask& task_;
  const DownloadContext& context_;
  PartialFile& partial_;
  ProgressReport progress_;
  Expectation expected_;  // of the complete file, as far as known
  Tally tally_;
};

Result<DownloadedFile> FileDownload::Run() {
  while (true) {
    NextStep step = Attempt();
    if (step.kind == NextStep::Kind::kCheck) step = Check();
    switch (step.kind) {
      case NextStep::Kind::kCheck:
        REM_RETURN_IF_ERROR(partial_.Publish());
        return DownloadedFile{partial_.state().bytes, false, !expected_.sha256.empty()};
      case NextStep::Kind::kGiveUp:
        if (step.discard) partial_.Discard();
        return step.error;
      case NextStep::Kind::kRestart: REM_RETURN_IF_ERROR(partial_.Begin("", {})); break;
      case NextStep::Kind::kGoOn: break;
    }
    REM_RETURN_IF_ERROR(PrepareNext(step, context_));
  }
}

NextStep FileDownload::Attempt() {
  const PartialState& state = partial_.state();
  const int64_t offset = ResumeOffset(state, task_.listed);
  if (offset > 0 && !expected_.sha256.empty() && expected_.size_bytes == offset) {
    return {.kind = NextStep::Kind::kCheck};  // an earlier run ended before its check did
  }
  FileSink sink(task_, offset, partial_, progress_);
  const Status transfer = context_.fetcher.Get({task_.url, offset, StrongEtag(state.etag)}, sink);
  const AttemptEnd end = std::move(sink).End(transfer);
  const ResponseAction action = end.decision.action;
  if (action == ResponseAction::kWriteFromStart || action == ResponseAction::kAppend ||
      action == ResponseAction::kCheck) {
    expected_ = end.decision.expected;
  }
  NextStep step = DecideNext(end, context_.retry, tally_);
  const Status kept = partial_.Checkpoint();
  if (kept.ok() || step.kind == NextStep::Kind::kGiveUp) return step;
  return {.kind = NextStep::Kind::kGiveUp, .error = kept};
}

// kCheck again when the bytes are right.
NextStep FileDownload::Check() {
  const int64_t size = partial_.state().bytes;
  if (expected_.size_bytes && size != *expected_.size_bytes) {
    return DecideAfterDamage(
        InvalidArgument("has " + std::to_string(size) + " bytes where " +
                        std::to_string(*expected_.size_bytes) + " were expected"),
        context_.retry, tally_);
  }
  if (expected_.sha256.empty()) return {.kind = NextStep::Kind::kCheck};
  const Result<std::string> sha256 =
      Sha256OfFile(partial_.descriptor(), partial_.path(), [&](int64_t done) {
        progress_.Checked(done, size);
        return !Stopped(context_);
      });
  if (!sha256.ok()) return {.kind = NextStep::Kind::kGiveUp, .error = sha256.status()};
  if (*sha256 == expected_.sha256) return {.kind = NextStep::Kind::kCheck};
  return DecideAfterDamage(InvalidArgument("the server's bytes have the SHA-256 " + *sha256 +
                                           " where " + expected_.sha256 + " was expected"),
                           context_.retry, tally_);
}

}  // namespace

Result<DownloadedFile> Download(const DownloadTask& task, const DownloadContext& context) {
  bool waited = false;
  const PartialFile::LockWait wait = {
      [&] {
        waited = true;
        Note(context, task.question.what + ": another process downloads it; waiting");
      },
      [&] { return !Stopped(context); }};
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<PartialFile> partial,
                       PartialFile::Open(task.final_path, wait));
  struct stat file;
  if ((waited || !task.replace) && stat(task.final_path.c_str(), &file) == 0) {
    return DownloadedFile{file.st_size, true, false};
  }
  Result<DownloadedFile> done = FileDownload(task, context, *partial).Run();
  if (done.ok()) return done;
  const Status error = done.status().WithContext(task.question.what);
  if (partial->state().bytes == 0) return error;
  return Status(error.code(), error.message() + "; the same command goes on after the " +
                                  SizeText(partial->state().bytes) + " that are here");
}

Result<std::string> FetchText(const Url& url, int64_t bytes_max, const Question& question,
                              const DownloadContext& context) {
  Tally tally;
  while (true) {
    TextSink sink(bytes_max, question);
    const Status transfer = context.fetcher.Get({url, 0, ""}, sink);
    const NextStep step = DecideNext(sink.End(transfer), context.retry, tally);
    if (step.kind == NextStep::Kind::kCheck) return std::move(sink.text());
    if (step.kind == NextStep::Kind::kGiveUp) return step.error;
    REM_RETURN_IF_ERROR(PrepareNext(step, context));
  }
}

}  // namespace remontoir
