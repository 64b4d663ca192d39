// Counters and histograms keep what threads tell them, and their names are held to the rules.
#include "metrics/metric.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "metrics/bounds.h"
#include "metrics/metric_set.h"

namespace remontoir {
namespace {

constexpr int64_t kTens[] = {10, 20, 30};

TEST(Histogram, PutsAValueBelowTheFirstBoundThatIsNotLess) {
  struct Case {
    int64_t value;
    size_t bucket;
  };
  for (const Case c :
       {Case{-1, 0}, {0, 0}, {10, 0}, {11, 1}, {20, 1}, {30, 2}, {31, 3}, {999, 3}}) {
    Histogram histogram({kTens});
    histogram.Observe(c.value);
    for (size_t i = 0; i <= std::size(kTens); ++i) {
      EXPECT_EQ(histogram.count(i), i == c.bucket ? 1 : 0) << c.value << " in bucket " << i;
    }
    EXPECT_EQ(histogram.sum(), c.value);
  }
}

TEST(Metrics, LoseNothingBetweenThreads) {
  MetricSet set;
  Counter& counter = set.AddCounter({"a_total", "A."});
  Histogram& histogram = set.AddHistogram({"h", "H."}, {kTens});
  constexpr int kThreads = 4;
  constexpr int64_t kEach = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < kEach; ++i) {
        counter.Add();
        histogram.Observe(i % 40);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), kThreads * kEach);
  EXPECT_EQ(histogram.count(), kThreads * kEach);
  EXPECT_EQ(histogram.count(0), kThreads * kEach / 40 * 11);
  EXPECT_EQ(histogram.count(3), kThreads * kEach / 40 * 9);
  EXPECT_EQ(histogram.sum(), kThreads * kEach / 40 * (39 * 40 / 2));
}

TEST(Bounds, MakeHistograms) {
  for (const HistogramBounds& bounds :
       {kFirstTokenBounds, kTokenGapBounds, kQueueBounds, kAnswerBounds, kRoundBounds,
        kKvLeaseBounds, kTokenBounds}) {
    Histogram histogram(bounds);  // checks that they ascend and are few enough
    histogram.Observe(bounds.upper.back());
    EXPECT_EQ(histogram.count(bounds.upper.size() - 1), 1);
    EXPECT_GT(bounds.upper.front(), 0);
  }
}

TEST(MetricSet, DiesOfANameThatBreaksTheRules) {
  struct Case {
    const char* why;
    std::function<void(MetricSet&)> add;
  };
  const Case cases[] = {
      {"not a metric's name",
       [](MetricSet& set) {
         set.AddGauge({"", "H."});
       }},
      {"not a metric's name",
       [](MetricSet& set) {
         set.AddGauge({"1a", "H."});
       }},
      {"not a metric's name",
       [](MetricSet& set) {
         set.AddGauge({"a-b", "H."});
       }},
      {"not a name for its alias",
       [](MetricSet& set) {
         set.AddGauge({"a", "H.", "b c"});
       }},
      {"counters end in _total",
       [](MetricSet& set) {
         set.AddCounter({"a", "H."});
       }},
      {"counters end in _total",
       [](MetricSet& set) {
         set.AddGauge({"a_total", "H."});
       }},
      {"must be one line",
       [](MetricSet& set) {
         set.AddGauge({"a", ""});
       }},
      {"must be one line",
       [](MetricSet& set) {
         set.AddGauge({"a", "x\ny"});
       }},
      {"added twice",
       [](MetricSet& set) {
         set.AddGauge({"a", "H."});
         set.AddGauge({"a", "H."});
       }},
      {"not a label's name",
       [](MetricSet& set) {
         set.AddInfo({"a", "H."}, {{"x:y", ""}});
       }},
      {"too many values",
       [](MetricSet& set) {
         set.AddCounters({"a_total", "H."}, {"x", std::vector<std::string_view>(1025)});
       }},
  };
  for (const Case& c : cases) {
    EXPECT_DEATH(
        {
          MetricSet set;
          c.add(set);
        },
        c.why);
  }
}

}  // namespace
}  // namespace remontoir
