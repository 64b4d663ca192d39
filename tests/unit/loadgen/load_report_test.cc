// Facts about the report, from records made by hand.
#include "loadgen/load_report.h"

#include <gtest/gtest.h>

#include <vector>

namespace remontoir {
namespace {

// Answered: first piece and further ones at these times.
LoadRecord Answered(int64_t intended_us, std::vector<int64_t> pieces_us, bool is_long = false) {
  LoadRecord record;
  record.planned = {intended_us, 30, 4, is_long};
  record.intended_us = intended_us;
  record.started_us = record.sent_us = intended_us + 100;
  record.first_byte_us = record.headers_us = pieces_us.front();
  record.ended_us = pieces_us.back();
  record.pieces_us = std::move(pieces_us);
  record.outcome = LoadOutcome::kAnswered;
  record.status = 200;
  return record;
}

LoadRecord Ended(LoadOutcome outcome, int status, int64_t ended_us) {
  LoadRecord record;
  record.outcome = outcome;
  record.status = status;
  record.started_us = record.sent_us = 0;
  record.first_byte_us = status == 0 ? -1 : ended_us;
  record.ended_us = ended_us;
  record.error = "so it was";
  return record;
}

TEST(Distribution, TakesPercentilesByNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Distribution found = DistributionOf(values);
  EXPECT_EQ(found.count, 100);
  EXPECT_NEAR(found.mean, 50.5, 1e-9);
  EXPECT_NEAR(found.std, 28.866, 1e-3);
  EXPECT_EQ(found.p50, 50);
  EXPECT_EQ(found.p95, 95);
  EXPECT_EQ(found.p99, 99);
  EXPECT_EQ(found.max, 100);
}

TEST(Distribution, OfOneValueIsThatValue) {
  const Distribution found = DistributionOf({7});
  EXPECT_EQ(found.p50, 7);
  EXPECT_EQ(found.p99, 7);
  EXPECT_EQ(found.std, 0);
  EXPECT_EQ(DistributionOf({}).count, 0);
}

TEST(LoadReport, CountsLatencyFromTheIntendedTime) {
  LoadRecord late = Answered(1'000'000, {1'500'000, 1'520'000});
  late.started_us = 1'450'000;  // the client or its bound held it back
  const LoadReport report = ReportOf(std::vector<LoadRecord>{late});
  EXPECT_EQ(report.ttft_ms.p50, 500);
  EXPECT_EQ(report.total_ms.p50, 520);
  EXPECT_EQ(report.late_sends, 1);
  EXPECT_EQ(report.latest_send_ms, 450);
}

TEST(LoadReport, AStalledServerShowsInTheLatencies) {
  // Ten arrivals a second for 10 s; the server stands still from 2 s to 7 s, then answers at once.
  std::vector<LoadRecord> records;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t intended_us = i * 100'000;
    const bool stalled = intended_us >= 2'000'000 && intended_us < 7'000'000;
    records.push_back(Answered(intended_us, {(stalled ? 7'000'000 : intended_us) + 10'000}));
  }
  const LoadReport report = ReportOf(records);
  // Half of the arrivals fell into the stall: a client that waits would have met it once.
  EXPECT_EQ(report.ttft_ms.p50, 10);
  EXPECT_EQ(report.ttft_ms.p95, 4'510);
  EXPECT_EQ(report.ttft_ms.max, 5'010);
  EXPECT_NEAR(report.ttft_ms.mean, 10 + 0.5 * 2'550, 1e-6);
}

TEST(LoadReport, SeparatesShortPromptsFromLongOnes) {
  const LoadReport report = ReportOf(std::vector<LoadRecord>{
      Answered(0, {10'000}), Answered(0, {900'000}, true), Answered(0, {30'000})});
  EXPECT_EQ(report.requests, 3);
  EXPECT_EQ(report.long_requests, 1);
  EXPECT_EQ(report.ttft_ms.max, 900);
  EXPECT_EQ(report.short_ttft_ms.max, 30);
  EXPECT_EQ(report.short_ttft_ms.count, 2);
  EXPECT_EQ(report.long_ttft_ms.count, 1);
}

TEST(LoadReport, GapsAreThoseWithinAStream) {
  const LoadReport report = ReportOf(
      std::vector<LoadRecord>{Answered(0, {10'000, 15'000, 35'000}), Answered(0, {500'000})});
  EXPECT_EQ(report.itl_ms.count, 2);
  EXPECT_EQ(report.itl_ms.p50, 5);
  EXPECT_EQ(report.itl_ms.max, 20);
}

TEST(LoadReport, RatesRunFromTheFirstIntendedTimeToTheLastEnd) {
  LoadRecord counted = Answered(1'000'000, {2'000'000, 5'000'000});
  counted.output_tokens = 38;
  counted.prompt_tokens = 100;
  const LoadReport report =
      ReportOf(std::vector<LoadRecord>{counted, Answered(1'500'000, {2'000'000, 2'500'000})});
  EXPECT_EQ(report.seconds, 4);
  EXPECT_EQ(report.answered_per_s, 0.5);
  EXPECT_EQ(report.output_tokens, 40);  // two pieces where the server didn't count
  EXPECT_EQ(report.output_tokens_per_s, 10);
  EXPECT_EQ(report.prompt_tokens, 130);
}

TEST(LoadReport, FilesWhatWasNotAnsweredByItsKind) {
  const LoadReport report = ReportOf(std::vector<LoadRecord>{
      Ended(LoadOutcome::kRefused, 429, 2'000), Ended(LoadOutcome::kRefused, 429, 4'000),
      Ended(LoadOutcome::kRefused, 503, 1'000), Ended(LoadOutcome::kFailed, 400, 1'000),
      Ended(LoadOutcome::kFailed, 200, 1'000), Ended(LoadOutcome::kUnreachable, 0, 1'000),
      Ended(LoadOutcome::kCutShort, 200, 1'000), Answered(0, {5'000})});
  EXPECT_EQ(report.requests, 8);
  EXPECT_EQ(report.answered, 1);
  EXPECT_EQ(report.refused, 3);
  EXPECT_EQ(report.failed, 4);
  EXPECT_EQ(report.not_answered, (std::map<std::string, int64_t>{{"429", 2},
                                                                 {"503", 1},
                                                                 {"400", 1},
                                                                 {"failed", 1},
                                                                 {"unreachable", 1},
                                                                 {"cut short", 1}}));
  EXPECT_EQ(report.first_error, "so it was");
  EXPECT_EQ(report.refusal_ms.count, 3);
  EXPECT_EQ(report.refusal_ms.max, 4);
  EXPECT_EQ(report.ttft_ms.count, 1);
}

TEST(LoadReport, WhoWasGivenUpCountsWithTheWait) {
  LoadRecord given_up = Ended(LoadOutcome::kTimedOut, 0, 60'000'000);
  given_up.intended_us = 10'000'000;
  const LoadReport report = ReportOf(std::vector<LoadRecord>{Answered(0, {5'000}), given_up});
  EXPECT_EQ(report.ttft_ms.count, 2);
  EXPECT_EQ(report.ttft_ms.max, 50'000);
  EXPECT_EQ(report.total_ms.count, 1);
  EXPECT_EQ(report.not_answered.at("timed out"), 1);
}

TEST(LoadReport, SetsForecastsBesideWhatCame) {
  LoadRecord record = Answered(0, {50'100});  // sent at 100 us
  record.ttft_predicted_ms = 42;
  record.batch_size = 3;
  const LoadReport report = ReportOf(std::vector<LoadRecord>{record, Answered(0, {1'000})});
  EXPECT_EQ(report.ttft_error_ms.count, 1);
  EXPECT_EQ(report.ttft_error_ms.max, 8);
  EXPECT_EQ(report.batch_size.mean, 3);
  EXPECT_EQ(report.queue_ms.count, 0);
}

TEST(LoadReport, OfNothingIsEmpty) { EXPECT_EQ(ReportOf({}).requests, 0); }

}  // namespace
}  // namespace remontoir
