// Replays are exact where they can be computed by hand, and the same for the same seed.
#include "simulation/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulation/experiment.h"
#include "simulation/plot.h"
#include "simulation/report.h"
#include "simulation/run_metrics.h"

namespace remontoir {
namespace {

// A round takes 10 ms, and a millisecond for each prompt token and each decode row.
ReplayOptions PlainOptions(SchedulingPolicy policy) {
  ReplayOptions options;
  options.scheduler.policy = policy;
  options.machine.costs = {10'000, 1000, 1000, 0, 0};
  options.machine.slots = 4;
  return options;
}

TEST(Replay, TakesTheTimeThatCostsSay) {
  const std::vector<Arrival> stream = {{1'000'000, 20, 3}};
  const auto replayed = Replay(stream, PlainOptions(SchedulingPolicy::kImmediate));
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  ASSERT_EQ(replayed->requests.size(), 1u);
  EXPECT_EQ(replayed->requests[0].arrived_us, 1'000'000);
  EXPECT_EQ(replayed->requests[0].first_token_us, 30'000);
  EXPECT_EQ(replayed->requests[0].tokens, 3);
  ASSERT_EQ(replayed->gaps.size(), 2u);
  EXPECT_EQ(replayed->gaps[0].us, 11'000);
  EXPECT_EQ(replayed->gaps[1].us, 11'000);
  EXPECT_EQ(replayed->end_us, 1'052'000);
}

TEST(Replay, NewcomersDuringARoundJoinTheNextOne) {
  const std::vector<Arrival> stream = {{0, 20, 2}, {5'000, 10, 1}};
  const auto replayed = Replay(stream, PlainOptions(SchedulingPolicy::kImmediate));
  ASSERT_TRUE(replayed.ok());
  EXPECT_EQ(replayed->requests[1].arrived_us, 5'000);
  // Rounds end at 30 ms and, with ten tokens and a row, at 51 ms.
  EXPECT_EQ(replayed->requests[1].first_token_us, 46'000);
  EXPECT_EQ(replayed->gaps[0].us, 21'000);
}

TEST(Replay, FixedHoldsForItsGateAndAdaptiveNever) {
  const std::vector<Arrival> stream = {{0, 20, 1}};
  const auto fixed = Replay(stream, PlainOptions(SchedulingPolicy::kFixed));
  const auto adaptive = Replay(stream, PlainOptions(SchedulingPolicy::kAdaptive));
  ASSERT_TRUE(fixed.ok() && adaptive.ok());
  EXPECT_EQ(fixed->requests[0].first_token_us, 230'000);
  EXPECT_EQ(fixed->hold_us_max, 200'000);
  EXPECT_EQ(adaptive->requests[0].first_token_us, 30'000);
  EXPECT_EQ(adaptive->hold_us_max, 0);
}

TEST(Replay, QueueThatIsFullRefuses) {
  ReplayOptions options = PlainOptions(SchedulingPolicy::kImmediate);
  options.machine.slots = 1;
  options.machine.queue_max = 1;
  const std::vector<Arrival> stream = {{0, 20, 1}, {1, 20, 1}, {2, 20, 1}};
  const auto replayed = Replay(stream, options);
  ASSERT_TRUE(replayed.ok());
  EXPECT_FALSE(replayed->requests[1].refused);  // it waits while the first runs
  EXPECT_TRUE(replayed->requests[2].refused);
  EXPECT_EQ(MetricsOf(*replayed).refused, 1);
}

TEST(Replay, ClientsSendAgainWhenTheirAnswerEnded) {
  ReplayOptions options = PlainOptions(SchedulingPolicy::kImmediate);
  options.clients = {.count = 2, .think_s = 0.5, .seconds = 60};
  const std::vector<Arrival> lengths = {{0, 20, 3}, {0, 40, 1}};
  const auto replayed = Replay(lengths, options);
  ASSERT_TRUE(replayed.ok());
  // Each goes round in about 0.55 s.
  EXPECT_NEAR(static_cast<double>(replayed->requests.size()), 2 * 60 / 0.55, 50);
  for (const RequestRecord& record : replayed->requests) {
    EXPECT_LE(record.arrived_us, 60'000'000);
    EXPECT_GE(record.ended_us, record.first_token_us);
  }
}

TEST(Replay, RefusesAnEmptyStream) {
  EXPECT_FALSE(Replay({}, PlainOptions(SchedulingPolicy::kImmediate)).ok());
}

TEST(Report, SameSeedSameBytes) {
  Experiment experiment;
  experiment.recipe = *StreamNamed("mmppC60");
  experiment.recipe.bursts.seconds = 400;
  const auto report = [&](uint64_t seed) {
    std::vector<PolicyRuns> policies;
    for (const SchedulingPolicy policy : {SchedulingPolicy::kImmediate, SchedulingPolicy::kAdaptive,
                                          SchedulingPolicy::kFixed, SchedulingPolicy::kLegacy}) {
      policies.push_back(RunPolicy(experiment, policy, seed, 2).value());
    }
    const ReportHeader header = {.stream = "mmppC60", .seed_first = seed, .seeds = 2};
    const PlotPanel panel = {
        "TTFT, ms", {{"immediate", policies[0].ttft_ms}, {"adaptive", policies[1].ttft_ms}}};
    return ReportTables(header, policies) + ReportJson(header, policies) +
           DistributionPlot("mmppC60", std::span(&panel, 1));
  };
  const std::string first = report(1);
  EXPECT_EQ(first, report(1));
  EXPECT_NE(first, report(2));
}

TEST(RunMetrics, AreWhatTheirNamesSay) {
  Replayed replayed;
  replayed.slots = 2;
  replayed.requests = {
      {.arrived_us = 0, .first_token_us = 10'000, .ended_us = 130'000, .tokens = 3},
      {.arrived_us = 50'000, .first_token_us = 30'000, .ended_us = 30'000, .tokens = 1},
      {.arrived_us = 60'000, .refused = true}};
  replayed.gaps = {{0, 20'000}, {0, 100'000}};
  replayed.rounds = {{0, 100'000, 1}, {150'000, 50'000, 2}};
  replayed.end_us = 200'000;
  const RunMetrics metrics = MetricsOf(replayed);
  EXPECT_EQ(metrics.requests, 3);
  EXPECT_EQ(metrics.refused, 1);
  EXPECT_DOUBLE_EQ(metrics.ttft_ms.mean, 20);
  EXPECT_DOUBLE_EQ(metrics.ttft_ms.p50, 20);
  EXPECT_DOUBLE_EQ(metrics.ttft_ms.std, 10);
  EXPECT_DOUBLE_EQ(metrics.itl_ms.max, 100);
  EXPECT_DOUBLE_EQ(metrics.stall_ms, 25);  // 50 ms of one, none of the other
  EXPECT_DOUBLE_EQ(metrics.utilisation, (100.0 * 1 + 50 * 2) / 150 / 2);
  EXPECT_DOUBLE_EQ(metrics.busy, 0.75);
  EXPECT_DOUBLE_EQ(metrics.tokens_per_s, 20);
  EXPECT_EQ(MetricsOf(replayed, 50'000, 60'000).requests, 1);
}

TEST(Quantile, IsLinearBetweenNeighbours) {
  const std::vector<double> sorted = {1, 2, 4};
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0.25), 1.5);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0.75), 3);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 1), 4);
  EXPECT_DOUBLE_EQ(Quantile({}, 0.5), 0);
}

TEST(Plot, KeepsNamesOutOfItsMarkup) {
  const PlotPanel panel = {"<ms>", {{"a&b", {1, 2, 3}}, {"none", {}}}};
  const std::string svg = DistributionPlot("t", std::span(&panel, 1));
  EXPECT_NE(svg.find("&lt;ms&gt;"), std::string::npos);
  EXPECT_NE(svg.find("a&amp;b"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace remontoir
