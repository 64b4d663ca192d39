// libcurl's multi interface, driven by hand so that a cancel or a stall is seen within a tenth of a
// second; redirects are followed by hand so that every hop is checked and its headers are read.
#include "hub/fetcher.h"

#include <curl/curl.h>

#include <charconv>

#include "base/check.h"
#include "hub/transfer_meter.h"

namespace remontoir {
namespace {

constexpr int kPollMs = 100;
constexpr long kBufferBytes = 256 << 10;
constexpr int64_t kRedirectBodyMax = 64 << 10;  // nobody reads it; a short one keeps the connection

bool IsRedirect(const ResponseFacts& facts) {
  const int status = facts.status;
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// 200 of "HTTP/1.1 200 OK".
int StatusOf(std::string_view line) {
  int status = 0;
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return status;
  std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
  return status;
}

Status FailureOf(CURLcode code, const std::string& host, const char* detail) {
  const std::string message = host + ": " + (detail[0] != '\0' ? detail : curl_easy_strerror(code));
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_NOT_BUILT_IN: return FailedPrecondition(message);
    default: return Unavailable(message);
  }
}

}  // namespace

struct Fetcher::Handles {
  CURL* easy = curl_easy_init();
  CURLM* multi = curl_multi_init();
  char error[CURL_ERROR_SIZE] = "";

  Handles() { REM_CHECK(easy != nullptr && multi != nullptr, "libcurl has memory"); }
  ~Handles() {
    curl_multi_cleanup(multi);
    curl_easy_cleanup(easy);
  }
};

// One request and its answer, as libcurl's callbacks see it.
struct Fetcher::Hop {
  Url url;
  const FetchQuestion& question;
  FetchSink& sink;
  bool with_token = false;
  ResponseFacts facts = {};
  int64_t received_bytes = 0;
  bool told = false;     // OnResponse was called
  bool refused = false;  // the rest of the body isn't wanted

  bool Tell() {
    if (!told && !IsRedirect(facts)) refused = !sink.OnResponse(facts);
    told = true;
    return !refused;
  }

  static size_t OnHeader(char* data, size_t, size_t size, void* self) {
    Hop& hop = *static_cast<Hop*>(self);
    const std::string_view line(data, size);
    if (line.starts_with("HTTP/")) {
      // A new answer: after "100 Continue", or a proxy's own.
      hop.facts = NextHop(hop.facts);
      hop.facts.status = StatusOf(line);
    } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      AddHeader(line.substr(0, colon), line.substr(colon + 1), hop.facts);
    }
    return size;
  }

  static size_t OnBody(char* data, size_t, size_t size, void* self) {
    Hop& hop = *static_cast<Hop*>(self);
    hop.received_bytes += static_cast<int64_t>(size);
    if (!hop.Tell()) return 0;
    if (IsRedirect(hop.facts)) {
      hop.refused = hop.received_bytes > kRedirectBodyMax;
      return hop.refused ? 0 : size;
    }
    hop.refused = !hop.sink.OnData({data, size});
    return hop.refused ? 0 : size;
  }
};

Fetcher::Fetcher(Url token_origin, std::string token, const FetchLimits& limits, const Clock& clock,
                 const std::atomic<bool>& cancel)
    : token_origin_(std::move(token_origin)),
      token_(std::move(token)),
      limits_(limits),
      clock_(clock),
      cancel_(cancel),
      handles_(std::make_unique<Handles>()) {}

Fetcher::~Fetcher() = default;

Status Fetcher::Get(const FetchQuestion& question, FetchSink& sink) {
  Hop hop{.url = question.url, .question = question, .sink = sink};
  hop.with_token = !token_.empty() && SameOrigin(hop.url, token_origin_);
  for (int redirects = 0;; ++redirects) {
    REM_RETURN_IF_ERROR(GetHop(hop));
    if (!IsRedirect(hop.facts)) return Status::Ok();
    if (hop.facts.location.empty()) {
      return FailedPrecondition(hop.url.host + ": a redirect without Location");
    }
    if (redirects == limits_.redirects_max) {
      return FailedPrecondition(question.url.host + ": more than " +
                                std::to_string(limits_.redirects_max) + " redirects");
    }
    Result<Url> next = ResolveRedirect(hop.url, hop.facts.location);
    if (!next.ok()) return FailedPrecondition(next.status().message());
    hop.with_token = hop.with_token && SameOrigin(*next, token_origin_);
    hop.url = std::move(next).value();
    hop.facts = NextHop(hop.facts);
    hop.received_bytes = 0;
    hop.told = false;
    hop.refused = false;
  }
}

Status Fetcher::GetHop(Hop& hop) {
  Prepare(hop);
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(nullptr, curl_slist_free_all);
  const auto add_header = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
    REM_CHECK(longer != nullptr, "libcurl has memory");
    static_cast<void>(headers.release());  // it is the head of the longer list
    headers.reset(longer);
  };
  add_header("Accept: */*");
  if (hop.with_token) add_header("Authorization: Bearer " + token_);
  if (hop.question.offset > 0) {
    add_header("Range: bytes=" + std::to_string(hop.question.offset) + "-");
    if (!hop.question.if_range.empty()) add_header("If-Range: " + hop.question.if_range);
  }
  curl_easy_setopt(handles_->easy, CURLOPT_HTTPHEADER, headers.get());
  curl_multi_add_handle(handles_->multi, handles_->easy);
  const Status status = Drive(hop);
  curl_multi_remove_handle(handles_->multi, handles_->easy);
  return status;
}

void Fetcher::Prepare(Hop& hop) {
  CURL* easy = handles_->easy;
  handles_->error[0] = '\0';
  curl_easy_reset(easy);  // keeps connections and DNS answers
  curl_easy_setopt(easy, CURLOPT_URL, hop.url.text.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "remontoir");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits_.connect_timeout_ms));
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, handles_->error);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Hop::OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &hop);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Hop::OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &hop);
}

Status Fetcher::Drive(Hop& hop) {
  StallWatch stall(clock_.Now(), limits_.stall_window_ms, limits_.stall_bytes);
  for (int running = 1; running > 0;) {
    if (cancel_.load(std::memory_order_relaxed)) return Cancelled("stopped");
    const CURLMcode code = curl_multi_perform(handles_->multi, &running);
    if (code != CURLM_OK) return Unavailable(hop.url.host + ": " + curl_multi_strerror(code));
    if (running == 0) break;
    if (stall.Stalled(clock_.Now(), hop.received_bytes)) {
      return Unavailable(hop.url.host + ": fewer than " + std::to_string(limits_.stall_bytes) +
                         " bytes came in " + std::to_string(limits_.stall_window_ms) + " ms");
    }
    curl_multi_poll(handles_->multi, nullptr, 0, kPollMs, nullptr);
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(handles_->multi, &left);
  REM_CHECK(message != nullptr && message->msg == CURLMSG_DONE, "a transfer that ended says how");
  if (hop.refused) return Status::Ok();
  if (message->data.result != CURLE_OK) {
    return FailureOf(message->data.result, hop.url.host, handles_->error);
  }
  hop.Tell();
  return Status::Ok();
}

}  // namespace remontoir
