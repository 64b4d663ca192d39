// What to do with an answer, and after a transfer: pure functions of what was seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace remontoir {

// What a complete file must be.
struct Expectation {
  std::string sha256;                 // 64 lower-case hex digits; empty: unknown
  std::optional<int64_t> size_bytes;  // nothing: unknown
};

// What both say; where both do, the first wins.
Expectation MergeExpectations(const Expectation& first, const Expectation& second);

// Content-Range: "bytes 100-199/200" or, with 416, "bytes */200".
struct ContentRange {
  std::optional<int64_t> first;
  std::optional<int64_t> total;  // nothing for "*"
};
std::optional<ContentRange> ParseContentRange(std::string_view value);

// The parts of an answer that decisions read.
struct ResponseFacts {
  int status = 0;
  std::string location;
  std::optional<int64_t> content_length;
  std::optional<ContentRange> content_range;
  std::string etag;  // as sent, with its quotes
  std::optional<int64_t> retry_after_s;
  std::string content_type;      // lower case
  std::string content_encoding;  // lower case
  std::string error_code;        // X-Error-Code: what the hub calls the error
  Expectation linked;            // X-Linked-Etag and X-Linked-Size; of a redirect, about its target
};

// Takes one header in; names in any case of letters.
void AddHeader(std::string_view name, std::string_view value, ResponseFacts& facts);

// The start of the next answer of the same question: only what a redirect said of its target stays,
// and what an earlier one said wins over a later one.
ResponseFacts NextHop(const ResponseFacts& facts);

// What is on disk of a file that is not complete.
struct PartialState {
  int64_t bytes = 0;
  std::string etag;  // of the answer that the bytes come from
  Expectation expected;
};

// Where to go on: `state.bytes`, or 0 when nothing proves that the rest would be of the same file
// (no ETag that is strong and no SHA-256, or what the list of the repository tells differs).
int64_t ResumeOffset(const PartialState& state, const Expectation& listed);

// "If-Range" takes strong validators only: the ETag, or empty when it is weak or missing.
std::string StrongEtag(std::string_view etag);

enum class ResponseAction {
  kWriteFromStart,  // the body is the file from its first byte
  kAppend,          // the body goes on where the partial file ends
  kCheck,           // there is nothing to add: check what is there
  kRestart,         // the partial file is of no use: ask again for all of it
  kRetry,           // ask again later
  kFail,            // asking again would not help
};

struct ResponseDecision {
  ResponseAction action = ResponseAction::kFail;
  Expectation expected = {};  // of the complete file, with kWriteFromStart, kAppend and kCheck
  Status error;               // with kRestart, kRetry and kFail: why
};

// What was asked for, for errors.
struct Question {
  std::string what;         // "OWNER/REPO/FILE"
  std::string endpoint;     // "https://host"
  bool with_token = false;  // a token was sent
};

// `offset` is the first byte that was asked for. SHA-256 and size come from the linked headers,
// else from the repository's list, else from an ETag that looks like a SHA-256 and the answer's
// length.
ResponseDecision DecideOnResponse(const ResponseFacts& facts, int64_t offset,
                                  const PartialState& state, const Expectation& listed,
                                  const Question& question);

struct RetryPolicy {
  int attempts_max = 5;              // in a row that brought less than progress_bytes more
  int64_t progress_bytes = 1 << 20;  // an attempt that brought this much starts a new row
  int restarts_max = 2;              // from the first byte again, for any reason
  int64_t backoff_first_ms = 500;    // doubles with each attempt
  int64_t backoff_max_ms = 30'000;
  int64_t retry_after_max_ms = 120'000;  // a server that asks for more is given up
};

// How an attempt ended.
struct AttemptEnd {
  ResponseDecision decision;  // of the answer; kRetry when there was none
  Status transfer;            // ok, kUnavailable for the network, anything else: give up
  bool overflow = false;      // the body was longer than the expected size
  int64_t bytes = 0;          // on disk
  std::optional<int64_t> retry_after_s;
};

struct Tally {
  int attempts = 0;
  int restarts = 0;
  int64_t bytes_most = 0;  // on disk at the end of an attempt since the last restart
};

struct NextStep {
  enum class Kind { kCheck, kGoOn, kRestart, kGiveUp };
  Kind kind = Kind::kGiveUp;
  int64_t wait_ms = 0;   // before kGoOn and kRestart
  Status error = {};     // with all but kCheck: why
  bool discard = false;  // with kGiveUp: what is on disk is of no use for a later download
};

NextStep DecideNext(const AttemptEnd& end, const RetryPolicy& policy, Tally& tally);

// After a complete file failed its check, for `why`.
NextStep DecideAfterDamage(Status why, const RetryPolicy& policy, Tally& tally);

}  // namespace remontoir
