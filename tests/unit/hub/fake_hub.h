// A hub with one repository, honest unless a test scripts its next answers; and a pull from it.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hub/pull.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/hub/loopback_server.h"

namespace remontoir {

// Deterministic, and different at every offset.
inline std::string Content(size_t bytes, uint32_t seed = 1) {
  std::string text(bytes, '\0');
  uint32_t state = seed;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

struct HostedFile {
  std::string content;
  std::string etag;    // with quotes; empty: none is sent
  std::string sha256;  // in the list; empty: not told
  bool ranges = true;
  bool linked = true;  // digest and size are sent as X-Linked headers too
};

using ::testing::IsEmpty;

inline constexpr size_t kSize = 300'000;
inline constexpr const char* kReference = "hf:o/r/m.gguf";
inline constexpr const char* kName = "o/r/m.gguf";

// sha256sum of Content(kSize).
inline constexpr const char* kDigest =
    "cbbf1aa1724d6a078f109e131e053eaae7eb669f6ef00b1ad46004a6118d965d";
// sha256sum of Content(kSize, 2).
inline constexpr const char* kOtherDigest =
    "eeb7c7743e3a743bd39891c08a60cd4462faf4684a3828ec7dbcb312dcaeb47a";

inline HostedFile Model() { return {Content(kSize), "\"v1\"", kDigest}; }

class FakeHub {
 public:
  using Script = std::function<RawAnswer(const SeenRequest&)>;

  FakeHub() : server_([this](const SeenRequest& request) { return Next(request); }) {}

  HostedFile& File(const std::string& name) { return files_[name]; }
  // The next answers about files, one each; after them the hub is honest.
  void Play(std::vector<Script> scripts) {
    const std::lock_guard lock(mutex_);
    scripts_.assign(scripts.begin(), scripts.end());
  }
  // Every answer about files.
  void PlayAlways(Script script) { always_ = std::move(script); }

  std::string address() const { return server_.address(); }
  // Requests about files.
  std::vector<SeenRequest> seen() const {
    std::vector<SeenRequest> seen = server_.seen();
    std::erase_if(seen,
                  [](const SeenRequest& request) { return request.path.starts_with("/api/"); });
    return seen;
  }
  // Who tells digest and size of m.gguf: nobody is a plain file server.
  enum class Teller { kNobody, kList, kHeadersAndList };
  void HostModel(Teller teller) {
    files_["m.gguf"] = Model();
    files_["m.gguf"].linked = teller == Teller::kHeadersAndList;
    lists_ = teller != Teller::kNobody;
  }

  RawAnswer Honest(const SeenRequest& request) {
    if (lists_ && request.path == "/api/models/o/r?blobs=true") return Answer(200, {}, Listing());
    const std::string prefix = "/o/r/resolve/main/";
    const auto at = request.path.starts_with(prefix)
                        ? files_.find(request.path.substr(prefix.size()))
                        : files_.end();
    if (at == files_.end()) return Answer(404, {"X-Error-Code: EntryNotFound"}, "no");
    const HostedFile& file = at->second;
    std::vector<std::string> headers = HeadersOf(file);
    const size_t offset = request.Offset();
    const std::string if_range = request.Header("if-range");
    const std::string size = std::to_string(file.content.size());
    if (!file.ranges || offset == 0 || (!if_range.empty() && if_range != file.etag)) {
      return Answer(200, headers, file.content);
    }
    if (offset >= file.content.size()) {
      headers.push_back("Content-Range: bytes */" + size);
      return Answer(416, headers);
    }
    headers.push_back("Content-Range: bytes " + std::to_string(offset) + "-" +
                      std::to_string(file.content.size() - 1) + "/" + size);
    return Answer(206, headers, file.content.substr(offset));
  }

  static std::vector<std::string> HeadersOf(const HostedFile& file) {
    std::vector<std::string> headers;
    if (!file.etag.empty()) headers.push_back("ETag: " + file.etag);
    if (file.linked && !file.sha256.empty()) {
      headers.push_back("X-Linked-Etag: \"" + file.sha256 + "\"");
      headers.push_back("X-Linked-Size: " + std::to_string(file.content.size()));
    }
    return headers;
  }

 private:
  RawAnswer Next(const SeenRequest& request) {
    if (request.path.starts_with("/api/")) return Honest(request);
    if (always_) return always_(request);
    Script script;
    {
      const std::lock_guard lock(mutex_);
      if (scripts_.empty()) return Honest(request);
      script = std::move(scripts_.front());
      scripts_.pop_front();
    }
    return script(request);
  }

  std::string Listing() const {
    std::string text = R"({"siblings": [{"rfilename": "README.md"})";
    for (const auto& [name, file] : files_) {
      text +=
          R"(, {"rfilename": ")" + name + R"(", "size": )" + std::to_string(file.content.size());
      if (!file.sha256.empty()) {
        text += R"(, "lfs": {"sha256": ")" + file.sha256 + R"(", "size": )" +
                std::to_string(file.content.size()) + "}";
      }
      text += "}";
    }
    return text + "]}";
  }

  std::map<std::string, HostedFile> files_;
  bool lists_ = true;
  std::mutex mutex_;
  std::deque<Script> scripts_;
  Script always_;
  LoopbackServer server_;  // last: its thread uses all of the above
};

// The first `bytes` of an honest answer's body, then the end of the connection.
inline FakeHub::Script BreakOff(FakeHub& hub, size_t bytes) {
  return [&hub, bytes](const SeenRequest& request) {
    RawAnswer answer = hub.Honest(request);
    answer.bytes.resize(answer.bytes.find("\r\n\r\n") + 4 + bytes);
    return answer;
  };
}

inline FakeHub::Script Status503() {
  return [](const SeenRequest&) { return Answer(503, {}, "later"); };
}

// One person's machine.
class PullFixture {
 public:
  PullFixture() {
    setenv("no_proxy", "127.0.0.1", 1);  // whatever proxy this machine has
    options_.retry.backoff_first_ms = 1;
    options_.on_note = [this](std::string_view note) { notes_.emplace_back(note); };
  }

  Result<PulledModel> Pull(const FakeHub& hub, const std::string& reference) {
    HubSettings settings;
    settings.endpoint = *ParseUrl(hub.address());
    settings.endpoint.text = hub.address();
    settings.token = token_;
    settings.home = folder_.path();
    return PullModel(*ParseModelReference(reference), settings, options_, clock_, cancel_);
  }

  const TemporaryFolder& folder() const { return folder_; }
  PullOptions& options() { return options_; }
  std::string& token() { return token_; }
  std::atomic<bool>& cancel() { return cancel_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  TemporaryFolder folder_;
  SystemClock clock_;
  std::atomic<bool> cancel_{false};
  PullOptions options_;
  std::string token_;
  std::vector<std::string> notes_;
};

}  // namespace remontoir
