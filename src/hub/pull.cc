// Asks for the list where one is needed, then downloads file by file.
#include "hub/pull.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "hub/repository.h"
#include "hub/split_name.h"
#include "hub/store.h"

namespace remontoir {
namespace {

constexpr int64_t kListingBytesMax = 32 << 20;

std::optional<int64_t> SizeOnDisk(const std::string& path) {
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return std::nullopt;
  return file.st_size;
}

class Puller {
 public:
  Puller(const ModelReference& reference, const HubSettings& settings, const PullOptions& options,
         const Clock& clock, const std::atomic<bool>& cancel)
      : reference_(reference),
        settings_(settings),
        options_(options),
        fetcher_(settings.endpoint, settings.token, options.limits, clock, cancel),
        context_{fetcher_, clock, cancel, options.retry, {}, options.on_note} {}

  Result<PulledModel> Run();

 private:
  Status FetchListing(const RetryPolicy& retry);
  Result<std::vector<RepositoryFile>> Choose();
  Result<std::vector<RepositoryFile>> NamedFiles();
  Result<PulledModel> FetchAll(const std::vector<RepositoryFile>& files);
  Result<DownloadedFile> FetchOne(const RepositoryFile& file);
  Status ExplainMissing(const Status& error) const;
  Result<PulledModel> FromStore(const Status& unreachable);

  std::string PathOf(const std::string& file) const {
    return StorePath(settings_.home, reference_.Repository(), file);
  }
  Question QuestionOf(std::string what) const {
    return {std::move(what), settings_.endpoint.text, !settings_.token.empty()};
  }

  const ModelReference& reference_;
  const HubSettings& settings_;
  const PullOptions& options_;
  Fetcher fetcher_;
  DownloadContext context_;
  std::vector<RepositoryFile> listed_;  // what the repository holds, once it is known
};

Result<PulledModel> Puller::Run() {
  const Result<std::vector<RepositoryFile>> files = Choose();
  if (files.ok()) return FetchAll(*files);
  const bool unreachable = files.status().code() == StatusCode::kUnavailable;
  return unreachable ? FromStore(files.status()) : Result<PulledModel>(files.status());
}

Result<std::vector<RepositoryFile>> Puller::Choose() {
  if (!reference_.file.empty()) return NamedFiles();
  REM_RETURN_IF_ERROR(FetchListing(options_.retry));
  return ChooseFiles(reference_, listed_);
}

Result<std::vector<RepositoryFile>> Puller::NamedFiles() {
  std::vector<RepositoryFile> files;
  bool all_there = true;
  for (const std::string& part : AllParts(reference_.file)) {
    files.push_back({part, {}, ""});
    all_there = all_there && SizeOnDisk(PathOf(part)).has_value();
  }
  if (all_there) return files;
  // The list tells sizes and digests, but a server without one will do.
  RetryPolicy once = options_.retry;
  once.attempts_max = 1;
  const Status listing = FetchListing(once);
  if (listing.code() == StatusCode::kCancelled) return listing;
  for (RepositoryFile& file : files) {
    const auto at = std::find_if(listed_.begin(), listed_.end(), [&](const RepositoryFile& known) {
      return known.name == file.name;
    });
    if (at != listed_.end()) file = *at;
  }
  return files;
}

Status Puller::FetchListing(const RetryPolicy& retry) {
  REM_ASSIGN_OR_RETURN(const Url url,
                       ParseUrl(settings_.endpoint.text + "/api/models/" +
                                EscapePath(reference_.Repository()) + "?blobs=true"));
  DownloadContext context = context_;
  context.retry = retry;
  REM_ASSIGN_OR_RETURN(const std::string text,
                       FetchText(url, kListingBytesMax,
                                 QuestionOf("repository " + reference_.Repository()), context));
  Result<std::vector<RepositoryFile>> files = ParseRepositoryListing(text);
  if (!files.ok()) return files.status().WithContext(url.text);
  listed_ = std::move(files).value();
  return Status::Ok();
}

Result<PulledModel> Puller::FetchAll(const std::vector<RepositoryFile>& files) {
  PulledModel pulled;
  pulled.path = PathOf(files.front().name);
  pulled.already_there = true;
  pulled.all_checked = true;
  for (size_t i = 0; i < files.size(); ++i) {
    context_.on_progress = [&, i](const DownloadProgress& progress) {
      if (!options_.on_progress) return;
      options_.on_progress(
          {files[i].name, static_cast<int>(i) + 1, static_cast<int>(files.size()), progress});
    };
    const Result<DownloadedFile> done = FetchOne(files[i]);
    if (!done.ok()) return ExplainMissing(done.status());
    pulled.size_bytes += done->size_bytes;
    pulled.already_there = pulled.already_there && done->already_there;
    pulled.all_checked = pulled.all_checked && (done->already_there || done->sha256_checked);
  }
  return pulled;
}

Result<DownloadedFile> Puller::FetchOne(const RepositoryFile& file) {
  DownloadTask task;
  task.final_path = PathOf(file.name);
  const std::optional<int64_t> there_bytes = SizeOnDisk(task.final_path);
  if (there_bytes && (!file.size_bytes || file.size_bytes == there_bytes)) {
    return DownloadedFile{*there_bytes, true, false};
  }
  task.replace = there_bytes.has_value();
  task.listed = {file.sha256, file.size_bytes};
  task.question = QuestionOf(reference_.Repository() + "/" + file.name);
  REM_ASSIGN_OR_RETURN(
      task.url, ParseUrl(settings_.endpoint.text + "/" + EscapePath(reference_.Repository()) +
                         "/resolve/main/" + EscapePath(file.name)));
  return Download(task, context_);
}

// Says what the repository holds when a file that was typed is not there.
Status Puller::ExplainMissing(const Status& error) const {
  if (error.code() != StatusCode::kNotFound || listed_.empty()) return error;
  return NotFound(error.message() + "; " + reference_.Repository() + " holds " +
                  DescribeFiles(listed_));
}

Result<PulledModel> Puller::FromStore(const Status& unreachable) {
  REM_ASSIGN_OR_RETURN(const std::vector<StoredModel> models, ListModels(settings_.home));
  const Result<StoredModel> stored = FindReference(models, reference_);
  if (!stored.ok()) return unreachable;
  if (options_.on_note) options_.on_note(unreachable.message() + "; using what is in the store");
  return PulledModel{stored->files.front(), stored->size_bytes, true, true};
}

}  // namespace

Result<PulledModel> PullModel(const ModelReference& reference, const HubSettings& settings,
                              const PullOptions& options, const Clock& clock,
                              const std::atomic<bool>& cancel) {
  return Puller(reference, settings, options, clock, cancel).Run();
}

}  // namespace remontoir
