// The rules of a transfer: status codes, validators, lengths, back-off.
#include "hub/transfer_rules.h"

#include <algorithm>
#include <charconv>

#include "hub/ascii.h"
#include "hub/repository.h"

namespace remontoir {
namespace {

constexpr int64_t kSizeMax = int64_t{1} << 50;

std::optional<int64_t> ParseCount(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  if (value < 0 || value > kSizeMax) return {};
  return value;
}

bool Differ(const std::string& a, const std::string& b) {
  return !a.empty() && !b.empty() && a != b;
}

bool Differ(const std::optional<int64_t>& a, const std::optional<int64_t>& b) {
  return a && b && *a != *b;
}

bool Differ(const Expectation& a, const Expectation& b) {
  return Differ(a.sha256, b.sha256) || Differ(a.size_bytes, b.size_bytes);
}

std::string Bytes(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

// What a linked header says wins over the list, which may be older than the file.
Expectation ExpectedOf(const ResponseFacts& facts, const Expectation& listed,
                       std::optional<int64_t> length) {
  return MergeExpectations(MergeExpectations(facts.linked, listed),
                           {Sha256FromText(facts.etag), length});
}

Status RefusedStatus(const ResponseFacts& facts, const Question& question) {
  const std::string status = " (HTTP " + std::to_string(facts.status) + ")";
  if (facts.error_code == "GatedRepo" || (facts.status == 403 && facts.error_code.empty())) {
    return FailedPrecondition(question.what + " is gated or private" + status +
                              ": accept its terms on its page at " + question.endpoint +
                              " and set HF_TOKEN to a token that may read it" +
                              (question.with_token ? "; the one that is set may not" : ""));
  }
  if (facts.status == 401 && question.with_token) {
    return FailedPrecondition(question.endpoint + " does not accept HF_TOKEN for " + question.what +
                              status + ": is it mistyped or expired, or the name wrong?");
  }
  if (facts.status == 401) {
    return FailedPrecondition(question.what + " does not exist, or is gated or private" + status +
                              ": check the name, or set HF_TOKEN to a token that may read it");
  }
  if (facts.status == 404 || facts.status == 410) {
    return NotFound(question.endpoint + " has no " + question.what + status);
  }
  return FailedPrecondition(question.endpoint + " refuses " + question.what + status);
}

ResponseDecision DecideOn200(const ResponseFacts& facts, const Expectation& listed,
                             const Question& question) {
  ResponseDecision decision{
      ResponseAction::kWriteFromStart, ExpectedOf(facts, listed, facts.content_length), {}};
  if (!facts.content_encoding.empty() && facts.content_encoding != "identity") {
    decision.action = ResponseAction::kFail;
    decision.error =
        FailedPrecondition(question.endpoint + " sends " + question.what +
                           " with Content-Encoding: " + PrintableAscii(facts.content_encoding));
  } else if (facts.content_type.starts_with("text/html") && decision.expected.sha256.empty()) {
    decision.action = ResponseAction::kFail;
    decision.error = FailedPrecondition(question.endpoint + " sends a web page for " +
                                        question.what + " (a login page of the network?)");
  }
  return decision;
}

ResponseDecision DecideOn206(const ResponseFacts& facts, int64_t offset, const PartialState& state,
                             const Expectation& listed, const Question& question) {
  const auto restart = [&](const std::string& why) {
    return ResponseDecision{ResponseAction::kRestart, {}, Unavailable(question.what + why)};
  };
  if (offset == 0) return restart(": the server sends a part where all was asked for");
  if (!facts.content_range || facts.content_range->first != offset) {
    return restart(": the server sends another part than bytes from " + std::to_string(offset));
  }
  const Expectation now = MergeExpectations(facts.linked, {"", facts.content_range->total});
  const bool proven = !facts.linked.sha256.empty() && facts.linked.sha256 == state.expected.sha256;
  if (Differ(now, state.expected) || (!proven && Differ(facts.etag, state.etag))) {
    return restart(" has changed on the server since the download began");
  }
  return {ResponseAction::kAppend,
          MergeExpectations(MergeExpectations(now, state.expected), listed),
          {}};
}

ResponseDecision DecideOn416(const ResponseFacts& facts, const PartialState& state,
                             const Expectation& listed, const Question& question) {
  const auto total = facts.content_range ? facts.content_range->total : std::nullopt;
  const Expectation expected =
      MergeExpectations(MergeExpectations(facts.linked, state.expected), listed);
  if (total == state.bytes && !Differ(facts.linked, state.expected) &&
      !Differ(facts.etag, state.etag) && !Differ(expected.size_bytes, total)) {
    return {ResponseAction::kCheck, MergeExpectations(expected, {"", total}), {}};
  }
  return {
      ResponseAction::kRestart,
      {},
      Unavailable(question.what + ": the server has no bytes from " + std::to_string(state.bytes) +
                  " on" + (total ? ", its file has " + Bytes(*total) : ""))};
}

int64_t BackoffMs(int attempts, const RetryPolicy& policy) {
  const int doublings = std::min(attempts - 1, 20);
  return std::min(policy.backoff_first_ms << doublings, policy.backoff_max_ms);
}

NextStep GiveUp(Status error, bool discard = false) {
  return {NextStep::Kind::kGiveUp, 0, std::move(error), discard};
}

NextStep Restart(Status why, const RetryPolicy& policy, Tally& tally) {
  tally.bytes_most = 0;
  if (++tally.restarts > policy.restarts_max) return GiveUp(std::move(why), true);
  return {NextStep::Kind::kRestart, 0, std::move(why), false};
}

NextStep Retry(Status why, const AttemptEnd& end, const RetryPolicy& policy, Tally& tally) {
  if (end.bytes - tally.bytes_most >= policy.progress_bytes) tally.attempts = 0;
  tally.bytes_most = std::max(tally.bytes_most, end.bytes);
  if (++tally.attempts >= policy.attempts_max) {
    return GiveUp(Status(why.code(), why.message() + "; gave up after " +
                                         std::to_string(tally.attempts) + " attempts"));
  }
  int64_t wait_ms = BackoffMs(tally.attempts, policy);
  if (end.retry_after_s) {
    if (*end.retry_after_s > policy.retry_after_max_ms / 1000) {
      return GiveUp(Status(why.code(), why.message() + "; the server asks to wait " +
                                           std::to_string(*end.retry_after_s) + " s"));
    }
    wait_ms = std::max(wait_ms, *end.retry_after_s * 1000);
  }
  return {NextStep::Kind::kGoOn, wait_ms, std::move(why), false};
}

}  // namespace

Expectation MergeExpectations(const Expectation& first, const Expectation& second) {
  return {first.sha256.empty() ? second.sha256 : first.sha256,
          first.size_bytes ? first.size_bytes : second.size_bytes};
}

std::optional<ContentRange> ParseContentRange(std::string_view value) {
  constexpr std::string_view kUnit = "bytes ";
  if (!EqualIgnoreCase(value.substr(0, kUnit.size()), kUnit)) return std::nullopt;
  value.remove_prefix(kUnit.size());
  const size_t slash = value.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view range = value.substr(0, slash);
  const std::string_view total = value.substr(slash + 1);
  ContentRange parsed;
  parsed.total = ParseCount(total);
  if (!parsed.total && total != "*") return std::nullopt;
  if (range == "*") return parsed;
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  parsed.first = ParseCount(range.substr(0, dash));
  const auto last = ParseCount(range.substr(dash + 1));
  if (!parsed.first || !last || *last < *parsed.first || (parsed.total && *last >= *parsed.total)) {
    return std::nullopt;
  }
  return parsed;
}

void AddHeader(std::string_view name, std::string_view value, ResponseFacts& facts) {
  value = TrimAscii(value);
  const std::string key = AsciiLower(name);
  if (key == "location") {
    facts.location = value;
  } else if (key == "content-length") {
    facts.content_length = ParseCount(value);
  } else if (key == "content-range") {
    facts.content_range = ParseContentRange(value);
  } else if (key == "etag") {
    facts.etag = value;
  } else if (key == "retry-after") {
    facts.retry_after_s = ParseCount(value);
  } else if (key == "content-type") {
    facts.content_type = AsciiLower(value);
  } else if (key == "content-encoding") {
    facts.content_encoding = AsciiLower(value);
  } else if (key == "x-error-code") {
    facts.error_code = value;
  } else if (key == "x-linked-etag" && facts.linked.sha256.empty()) {
    facts.linked.sha256 = Sha256FromText(value);
  } else if (key == "x-linked-size" && !facts.linked.size_bytes) {
    facts.linked.size_bytes = ParseCount(value);
  }
}

ResponseFacts NextHop(const ResponseFacts& facts) {
  ResponseFacts next;
  next.linked = facts.linked;
  return next;
}

std::string StrongEtag(std::string_view etag) {
  const bool strong = etag.size() >= 2 && etag.front() == '"' && etag.back() == '"';
  return strong ? std::string(etag) : "";
}

int64_t ResumeOffset(const PartialState& state, const Expectation& listed) {
  if (Differ(state.expected, listed)) return 0;
  const Expectation expected = MergeExpectations(state.expected, listed);
  if (expected.size_bytes && state.bytes > *expected.size_bytes) return 0;
  if (StrongEtag(state.etag).empty() && expected.sha256.empty()) return 0;
  return state.bytes;
}

ResponseDecision DecideOnResponse(const ResponseFacts& facts, int64_t offset,
                                  const PartialState& state, const Expectation& listed,
                                  const Question& question) {
  switch (facts.status) {
    case 200: return DecideOn200(facts, listed, question);
    case 206: return DecideOn206(facts, offset, state, listed, question);
    case 416:
      if (offset > 0) return DecideOn416(facts, state, listed, question);
      break;
    case 429:
      return {ResponseAction::kRetry,
              {},
              ResourceExhausted(question.endpoint + " limits requests (HTTP 429)" +
                                (question.with_token ? "" : "; HF_TOKEN may raise the limit"))};
    case 408:
    case 500:
    case 502:
    case 503:
    case 504:
      return {ResponseAction::kRetry,
              {},
              Unavailable(question.endpoint + " can't serve " + question.what + " now (HTTP " +
                          std::to_string(facts.status) + ")")};
    default: break;
  }
  return {ResponseAction::kFail, {}, RefusedStatus(facts, question)};
}

NextStep DecideNext(const AttemptEnd& end, const RetryPolicy& policy, Tally& tally) {
  const bool network = end.transfer.code() == StatusCode::kUnavailable;
  if (!end.transfer.ok() && !network) return GiveUp(end.transfer);
  switch (end.decision.action) {
    case ResponseAction::kFail: return GiveUp(end.decision.error);
    case ResponseAction::kCheck: return {.kind = NextStep::Kind::kCheck};
    case ResponseAction::kRestart: return Restart(end.decision.error, policy, tally);
    case ResponseAction::kRetry:
      return Retry(network ? end.transfer : end.decision.error, end, policy, tally);
    case ResponseAction::kWriteFromStart:
    case ResponseAction::kAppend: break;
  }
  const std::optional<int64_t> size = end.decision.expected.size_bytes;
  if (end.overflow) {
    return Restart(InvalidArgument("the server sends more than the expected " + Bytes(*size)),
                   policy, tally);
  }
  if (size ? end.bytes == *size : end.transfer.ok()) return {.kind = NextStep::Kind::kCheck};
  const std::string missing =
      size ? "the transfer ended after " + Bytes(end.bytes) + " of " + Bytes(*size)
           : "the transfer ended early, after " + Bytes(end.bytes);
  return Retry(Unavailable(missing + (network ? ": " + end.transfer.message() : "")), end, policy,
               tally);
}

NextStep DecideAfterDamage(Status why, const RetryPolicy& policy, Tally& tally) {
  return Restart(std::move(why), policy, tally);
}

}  // namespace remontoir
