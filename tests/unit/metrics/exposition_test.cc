// The page, letter by letter.
#include "metrics/exposition.h"

#include <gtest/gtest.h>

#include <array>

namespace remontoir {
namespace {

constexpr int64_t kSomeUs[] = {1, 2500, 1'000'000};

std::string PageOf(const MetricSet& set, const MetricLabels& alias_labels = {}) {
  return MetricsText(std::array{&set}, alias_labels);
}

TEST(Exposition, WritesACounter) {
  MetricSet set;
  set.AddCounter({"a_total", "Some things."}).Add(7);
  EXPECT_EQ(PageOf(set), "# HELP a_total Some things.\n# TYPE a_total counter\na_total 7\n");
}

TEST(Exposition, WritesACounterInItsShownUnit) {
  MetricSet set;
  set.AddCounter({"cpu_seconds_total", "Time."}, /*per_unit=*/1e6).Add(1'250'000);
  EXPECT_EQ(PageOf(set),
            "# HELP cpu_seconds_total Time.\n# TYPE cpu_seconds_total counter\n"
            "cpu_seconds_total 1.25\n");
}

TEST(Exposition, WritesAllCountersOfATableFromTheStart) {
  MetricSet set;
  CounterTable& table =
      set.AddCounters({"a_total", "By both."}, {"way", {"/x", "/y"}}, {"status", {"2xx", "4xx"}});
  table.At(1, 0).Add(3);
  EXPECT_EQ(PageOf(set),
            "# HELP a_total By both.\n# TYPE a_total counter\n"
            "a_total{way=\"/x\",status=\"2xx\"} 0\na_total{way=\"/x\",status=\"4xx\"} 0\n"
            "a_total{way=\"/y\",status=\"2xx\"} 3\na_total{way=\"/y\",status=\"4xx\"} 0\n");
}

TEST(Exposition, WritesGaugesOfATable) {
  MetricSet set;
  set.AddGauges({"memory_bytes", "By state."}, {"state", {"locked", "plain"}}).At(1).Set(4096);
  EXPECT_EQ(PageOf(set),
            "# HELP memory_bytes By state.\n# TYPE memory_bytes gauge\n"
            "memory_bytes{state=\"locked\"} 0\nmemory_bytes{state=\"plain\"} 4096\n");
}

TEST(Exposition, WritesAHistogramWithCumulativeBuckets) {
  MetricSet set;
  Histogram& histogram = set.AddHistogram({"h_seconds", "Times."}, {kSomeUs, 1e6});
  for (const int64_t us : {1, 2, 2500, 2501, 3'000'000}) histogram.Observe(us);
  EXPECT_EQ(PageOf(set),
            "# HELP h_seconds Times.\n# TYPE h_seconds histogram\n"
            "h_seconds_count 5\nh_seconds_sum 3.005004\n"
            "h_seconds_bucket{le=\"1e-06\"} 1\nh_seconds_bucket{le=\"0.0025\"} 3\n"
            "h_seconds_bucket{le=\"1\"} 4\nh_seconds_bucket{le=\"+Inf\"} 5\n");
}

TEST(Exposition, WritesAnAliasWithItsLabelsAndTheSameValues) {
  MetricSet set;
  set.AddCounters({"a_total", "By way.", "vllm:a_total"}, {"way", {"x"}}).At(0).Add(2);
  EXPECT_EQ(PageOf(set, {{"model_name", "m"}}),
            "# HELP a_total By way.\n# TYPE a_total counter\na_total{way=\"x\"} 2\n"
            "# HELP vllm:a_total By way.\n# TYPE vllm:a_total counter\n"
            "vllm:a_total{model_name=\"m\",way=\"x\"} 2\n");
}

TEST(Exposition, EscapesWhatALabelSays) {
  MetricSet set;
  set.AddInfo({"build_info", "Facts."}, {{"file", "a\"b\\c\nd"}});
  EXPECT_EQ(PageOf(set),
            "# HELP build_info Facts.\n# TYPE build_info gauge\n"
            "build_info{file=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(Exposition, KeepsTheOrderOfSetsAndMetrics) {
  MetricSet first;
  first.AddGauge({"b", "B."}).Set(0.5);
  first.AddGauge({"a", "A."}).Set(-1e9);
  MetricSet second;
  second.AddGauge({"c", "C."}).Set(123456789);
  EXPECT_EQ(MetricsText(std::array<const MetricSet*, 2>{&first, &second}, {}),
            "# HELP b B.\n# TYPE b gauge\nb 0.5\n# HELP a A.\n# TYPE a gauge\na -1000000000\n"
            "# HELP c C.\n# TYPE c gauge\nc 123456789\n");
}

}  // namespace
}  // namespace remontoir
