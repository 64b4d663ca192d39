// What is done about each answer and each end of a transfer.
#include "hub/transfer_rules.h"

#include <gmock/gmock.h>

namespace remontoir {
namespace {

using ::testing::HasSubstr;
using Action = ResponseAction;
using Kind = NextStep::Kind;

const std::string kA(64, 'a');
const std::string kB(64, 'b');
const Question kQuestion = {"o/r/f.gguf", "https://hub", false};

ResponseFacts Facts(int status, const std::vector<std::pair<const char*, std::string>>& headers) {
  ResponseFacts facts;
  facts.status = status;
  for (const auto& [name, value] : headers) AddHeader(name, value, facts);
  return facts;
}

TEST(ParseContentRange, ReadsRangesAndTotals) {
  const struct {
    const char* text;
    std::optional<int64_t> first;
    std::optional<int64_t> total;
  } cases[] = {{"bytes 100-199/200", 100, 200},
               {"Bytes 0-0/1", 0, 1},
               {"bytes 5-9/*", 5, std::nullopt},
               {"bytes */200", std::nullopt, 200}};
  for (const auto& c : cases) {
    const auto range = ParseContentRange(c.text);
    ASSERT_TRUE(range) << c.text;
    EXPECT_EQ(range->first, c.first);
    EXPECT_EQ(range->total, c.total);
  }
}

TEST(ParseContentRange, RefusesNonsense) {
  for (const char* text : {"", "bytes", "bytes 1-2", "lines 1-2/3", "bytes 2-1/3", "bytes 1-3/3",
                           "bytes -1-2/3", "bytes a-b/c", "bytes 1-2/99999999999999999999"}) {
    EXPECT_FALSE(ParseContentRange(text)) << text;
  }
}

TEST(AddHeader, KeepsTheFirstThatIsSaidOfARedirectsTarget) {
  ResponseFacts facts = Facts(302, {{"X-Linked-ETag", "\"" + kA + "\""},
                                    {"x-linked-size", "1000"},
                                    {"Location", "https://cdn/x"},
                                    {"ETag", "\"git\""},
                                    {"Content-Length", "17"}});
  facts = NextHop(facts);
  EXPECT_EQ(facts.location, "");
  EXPECT_EQ(facts.etag, "");
  EXPECT_EQ(facts.content_length, std::nullopt);
  AddHeader("X-Linked-Etag", kB, facts);
  AddHeader("X-Linked-Size", "5", facts);
  EXPECT_EQ(facts.linked.sha256, kA);
  EXPECT_EQ(facts.linked.size_bytes, 1000);
}

TEST(AddHeader, IgnoresCountsThatAreNone) {
  const ResponseFacts facts = Facts(
      200,
      {{"Content-Length", "-5"}, {"Retry-After", "Wed, 21 Oct 2015"}, {"X-Linked-Size", "1e9"}});
  EXPECT_EQ(facts.content_length, std::nullopt);
  EXPECT_EQ(facts.retry_after_s, std::nullopt);
  EXPECT_EQ(facts.linked.size_bytes, std::nullopt);
}

TEST(ResumeOffset, NeedsProofThatTheRestIsOfTheSameFile) {
  const struct {
    const char* what;
    PartialState state;
    Expectation listed;
    int64_t offset;
  } cases[] = {
      {"nothing there", {0, "\"e\"", {kA, 10}}, {}, 0},
      {"an ETag", {5, "\"e\"", {"", 10}}, {}, 5},
      {"a weak ETag", {5, "W/\"e\"", {"", 10}}, {}, 0},
      {"no validator", {5, "", {"", 10}}, {}, 0},
      {"a digest", {5, "", {kA, 10}}, {}, 5},
      {"a digest of the list", {5, "", {"", 10}}, {kA, 10}, 5},
      {"the list's digest differs", {5, "\"e\"", {kA, 10}}, {kB, 10}, 0},
      {"the list's size differs", {5, "\"e\"", {kA, 10}}, {kA, 11}, 0},
      {"more than the file has", {11, "\"e\"", {kA, 10}}, {}, 0},
      {"all of it", {10, "\"e\"", {kA, 10}}, {}, 10},
  };
  for (const auto& c : cases) EXPECT_EQ(ResumeOffset(c.state, c.listed), c.offset) << c.what;
}

TEST(DecideOnResponse, ChoosesByStatusAndValidators) {
  const PartialState none;
  const PartialState half = {5, "\"e\"", {"", 10}};
  const PartialState half_known = {5, "\"e\"", {kA, 10}};
  const struct {
    const char* what;
    ResponseFacts facts;
    PartialState state;
    Action action;
  } cases[] = {
      {"all of it", Facts(200, {{"Content-Length", "10"}}), none, Action::kWriteFromStart},
      {"the server ignores ranges", Facts(200, {}), half, Action::kWriteFromStart},
      {"an encoded body", Facts(200, {{"Content-Encoding", "gzip"}}), none, Action::kFail},
      {"a body that says it is not encoded", Facts(200, {{"Content-Encoding", "Identity"}}), none,
       Action::kWriteFromStart},
      {"a login page", Facts(200, {{"Content-Type", "text/html; charset=utf-8"}}), none,
       Action::kFail},
      {"a file with an odd type and a digest",
       Facts(200, {{"Content-Type", "text/html"}, {"X-Linked-Etag", kA}}), none,
       Action::kWriteFromStart},
      {"the rest", Facts(206, {{"Content-Range", "bytes 5-9/10"}, {"ETag", "\"e\""}}), half,
       Action::kAppend},
      {"the rest, of unknown length", Facts(206, {{"Content-Range", "bytes 5-9/*"}}), half,
       Action::kAppend},
      {"another part", Facts(206, {{"Content-Range", "bytes 4-9/10"}}), half, Action::kRestart},
      {"a part of no known place", Facts(206, {}), half, Action::kRestart},
      {"a part that nobody asked for", Facts(206, {{"Content-Range", "bytes 0-9/10"}}), none,
       Action::kRestart},
      {"the rest of a longer file", Facts(206, {{"Content-Range", "bytes 5-10/11"}}), half,
       Action::kRestart},
      {"the rest of a file with another ETag",
       Facts(206, {{"Content-Range", "bytes 5-9/10"}, {"ETag", "\"f\""}}), half, Action::kRestart},
      {"another ETag of a file with the same digest",
       Facts(206, {{"Content-Range", "bytes 5-9/10"}, {"ETag", "\"f\""}, {"X-Linked-Etag", kA}}),
       half_known, Action::kAppend},
      {"another digest",
       Facts(206, {{"Content-Range", "bytes 5-9/10"}, {"ETag", "\"e\""}, {"X-Linked-Etag", kB}}),
       half_known, Action::kRestart},
      {"nothing to add",
       Facts(416, {{"Content-Range", "bytes */5"}}),
       {5, "\"e\"", {"", {}}},
       Action::kCheck},
      {"nothing to add, but more was expected", Facts(416, {{"Content-Range", "bytes */5"}}), half,
       Action::kRestart},
      {"a shorter file", Facts(416, {{"Content-Range", "bytes */3"}}), half, Action::kRestart},
      {"a range is refused without a reason", Facts(416, {}), half, Action::kRestart},
      {"416 without a range", Facts(416, {}), none, Action::kFail},
      {"too many requests", Facts(429, {}), none, Action::kRetry},
      {"a time-out", Facts(408, {}), none, Action::kRetry},
      {"500", Facts(500, {}), none, Action::kRetry},
      {"502", Facts(502, {}), none, Action::kRetry},
      {"503", Facts(503, {}), half, Action::kRetry},
      {"504", Facts(504, {}), none, Action::kRetry},
      {"501", Facts(501, {}), none, Action::kFail},
      {"204", Facts(204, {}), none, Action::kFail},
      {"304", Facts(304, {}), none, Action::kFail},
      {"400", Facts(400, {}), none, Action::kFail},
      {"404", Facts(404, {}), none, Action::kFail},
      {"no status", Facts(0, {}), none, Action::kFail},
  };
  for (const auto& c : cases) {
    const auto decision = DecideOnResponse(c.facts, c.state.bytes, c.state, {}, kQuestion);
    EXPECT_EQ(decision.action, c.action) << c.what;
    const bool takes = c.action == Action::kWriteFromStart || c.action == Action::kAppend ||
                       c.action == Action::kCheck;
    EXPECT_EQ(decision.error.ok(), takes) << c.what;
  }
}

TEST(DecideOnResponse, ExpectsWhatTheNearestSourceSays) {
  const struct {
    const char* what;
    std::vector<std::pair<const char*, std::string>> headers;
    Expectation listed;
    Expectation expected;
  } cases[] = {
      {"nothing", {}, {}, {"", {}}},
      {"the length", {{"Content-Length", "7"}}, {}, {"", 7}},
      {"an ETag that is a digest", {{"ETag", "\"" + kA + "\""}}, {}, {kA, {}}},
      {"an ETag that is none", {{"ETag", "\"abc\""}}, {}, {"", {}}},
      {"the list", {{"Content-Length", "7"}, {"ETag", kB}}, {kA, 10}, {kA, 10}},
      {"linked headers",
       {{"Content-Length", "7"}, {"X-Linked-Etag", kB}, {"X-Linked-Size", "9"}},
       {kA, 10},
       {kB, 9}},
  };
  for (const auto& c : cases) {
    const auto decision = DecideOnResponse(Facts(200, c.headers), 0, {}, c.listed, kQuestion);
    EXPECT_EQ(decision.expected.sha256, c.expected.sha256) << c.what;
    EXPECT_EQ(decision.expected.size_bytes, c.expected.size_bytes) << c.what;
  }
}

TEST(DecideOnResponse, SaysWhatCanBeDoneAboutARefusal) {
  const struct {
    ResponseFacts facts;
    bool with_token;
    StatusCode code;
    std::vector<const char*> said;
  } cases[] = {
      {Facts(401, {}), false, StatusCode::kFailedPrecondition, {"o/r/f.gguf", "HF_TOKEN", "401"}},
      {Facts(401, {}), true, StatusCode::kFailedPrecondition, {"does not accept HF_TOKEN"}},
      {Facts(401, {{"X-Error-Code", "GatedRepo"}}),
       false,
       StatusCode::kFailedPrecondition,
       {"gated", "accept its terms", "set HF_TOKEN"}},
      {Facts(403, {{"X-Error-Code", "GatedRepo"}}),
       true,
       StatusCode::kFailedPrecondition,
       {"gated", "the one that is set may not"}},
      {Facts(403, {}), false, StatusCode::kFailedPrecondition, {"gated", "HF_TOKEN", "403"}},
      {Facts(404, {}), false, StatusCode::kNotFound, {"https://hub has no o/r/f.gguf", "404"}},
      {Facts(410, {}), false, StatusCode::kNotFound, {"has no", "410"}},
      {Facts(418, {}), false, StatusCode::kFailedPrecondition, {"refuses", "418"}},
      {Facts(429, {}), false, StatusCode::kResourceExhausted, {"limits requests", "HF_TOKEN"}},
      {Facts(503, {}), false, StatusCode::kUnavailable, {"can't serve o/r/f.gguf", "503"}},
  };
  for (const auto& c : cases) {
    Question question = kQuestion;
    question.with_token = c.with_token;
    const auto decision = DecideOnResponse(c.facts, 0, {}, {}, question);
    EXPECT_EQ(decision.error.code(), c.code) << decision.error.message();
    for (const char* said : c.said) EXPECT_THAT(decision.error.message(), HasSubstr(said));
  }
}

AttemptEnd End(Action action, Status transfer, int64_t bytes, Expectation expected = {}) {
  AttemptEnd end;
  end.decision = {action, std::move(expected), {}};
  if (action == Action::kRetry || action == Action::kRestart || action == Action::kFail) {
    end.decision.error = Unavailable("refused");
  }
  end.transfer = std::move(transfer);
  end.bytes = bytes;
  return end;
}

TEST(DecideNext, JudgesHowATransferEnded) {
  const Status broken = Unavailable("reset");
  const struct {
    const char* what;
    AttemptEnd end;
    Kind kind;
  } cases[] = {
      {"whole", End(Action::kWriteFromStart, {}, 10, {"", 10}), Kind::kCheck},
      {"whole, of unknown length", End(Action::kWriteFromStart, {}, 10), Kind::kCheck},
      {"whole, though the server promised more", End(Action::kWriteFromStart, broken, 10, {"", 10}),
       Kind::kCheck},
      {"short", End(Action::kAppend, {}, 9, {"", 10}), Kind::kGoOn},
      {"broken off", End(Action::kAppend, broken, 9, {"", 10}), Kind::kGoOn},
      {"broken off, of unknown length", End(Action::kWriteFromStart, broken, 9), Kind::kGoOn},
      {"no answer", End(Action::kRetry, broken, 0), Kind::kGoOn},
      {"ask later", End(Action::kRetry, {}, 0), Kind::kGoOn},
      {"of no use", End(Action::kRestart, {}, 5), Kind::kRestart},
      {"nothing to add", End(Action::kCheck, {}, 5), Kind::kCheck},
      {"refused", End(Action::kFail, {}, 0), Kind::kGiveUp},
      {"cancelled", End(Action::kAppend, Cancelled("stopped"), 5), Kind::kGiveUp},
      {"disk full", End(Action::kAppend, ResourceExhausted("full"), 5), Kind::kGiveUp},
      {"certificate", End(Action::kRetry, FailedPrecondition("certificate"), 0), Kind::kGiveUp},
  };
  for (const auto& c : cases) {
    Tally tally;
    const NextStep step = DecideNext(c.end, RetryPolicy(), tally);
    EXPECT_EQ(step.kind, c.kind) << c.what;
    EXPECT_EQ(step.error.ok(), c.kind == Kind::kCheck) << c.what;
    EXPECT_FALSE(step.discard) << c.what;
  }
}

TEST(DecideNext, RestartsWhenMoreComesThanExpected) {
  AttemptEnd end = End(Action::kWriteFromStart, {}, 10, {"", 10});
  end.overflow = true;
  RetryPolicy policy;
  policy.restarts_max = 1;
  Tally tally;
  EXPECT_EQ(DecideNext(end, policy, tally).kind, Kind::kRestart);
  const NextStep last = DecideNext(end, policy, tally);
  EXPECT_EQ(last.kind, Kind::kGiveUp);
  EXPECT_TRUE(last.discard);
  EXPECT_THAT(last.error.message(), HasSubstr("more than the expected 10 bytes"));
}

TEST(DecideNext, WaitsLongerEachTimeAndThenGivesUp) {
  RetryPolicy policy;
  policy.attempts_max = 5;
  policy.backoff_first_ms = 100;
  policy.backoff_max_ms = 300;
  Tally tally;
  for (const int64_t wait_ms : {100, 200, 300, 300}) {
    const NextStep step = DecideNext(End(Action::kRetry, {}, 0), policy, tally);
    EXPECT_EQ(step.kind, Kind::kGoOn);
    EXPECT_EQ(step.wait_ms, wait_ms);
  }
  const NextStep last = DecideNext(End(Action::kRetry, {}, 0), policy, tally);
  EXPECT_EQ(last.kind, Kind::kGiveUp);
  EXPECT_THAT(last.error.message(), HasSubstr("gave up after 5 attempts"));
}

TEST(DecideNext, CountsAnewAfterProgress) {
  RetryPolicy policy;
  policy.attempts_max = 2;
  policy.progress_bytes = 100;
  Tally tally;
  for (const int64_t bytes : {100, 200, 300, 400}) {
    EXPECT_EQ(DecideNext(End(Action::kAppend, {}, bytes, {"", 1000}), policy, tally).kind,
              Kind::kGoOn);
  }
  EXPECT_EQ(DecideNext(End(Action::kAppend, {}, 499, {"", 1000}), policy, tally).kind,
            Kind::kGiveUp);
}

TEST(DecideNext, BytesThatWereHereBeforeAreNoProgress) {
  RetryPolicy policy;
  policy.attempts_max = 3;
  policy.progress_bytes = 100;
  Tally tally;
  const int64_t bytes[] = {500, 200, 500};
  const Kind kinds[] = {Kind::kGoOn, Kind::kGoOn, Kind::kGiveUp};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(
        DecideNext(End(Action::kWriteFromStart, {}, bytes[i], {"", 1000}), policy, tally).kind,
        kinds[i]);
  }
}

TEST(DecideNext, HonoursRetryAfterWithinABound) {
  RetryPolicy policy;
  policy.backoff_first_ms = 100;
  AttemptEnd end = End(Action::kRetry, {}, 0);
  Tally tally;
  end.retry_after_s = 3;
  EXPECT_EQ(DecideNext(end, policy, tally).wait_ms, 3000);
  end.retry_after_s = 0;
  EXPECT_EQ(DecideNext(end, policy, tally).wait_ms, 200);
  end.retry_after_s = 3600;
  const NextStep last = DecideNext(end, policy, tally);
  EXPECT_EQ(last.kind, Kind::kGiveUp);
  EXPECT_THAT(last.error.message(), HasSubstr("asks to wait 3600 s"));
}

}  // namespace
}  // namespace remontoir
