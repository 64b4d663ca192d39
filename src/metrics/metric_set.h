// A list of metrics with their names, as one part of the program declares it: a line a metric.
//
//   struct EngineMetrics : MetricSet {
//     Counter& rounds = AddCounter({"remontoir_rounds_total", "Rounds of the engine"});
//   };
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "metrics/metric.h"

namespace remontoir {

// Literals: they outlive the set.
struct MetricText {
  std::string_view name;        // a counter's ends in _total, a unit stands last
  std::string_view help;        // one line
  std::string_view alias = {};  // the name under which vLLM shows the same values
};

struct MetricLabel {
  std::string name;
  std::string value;  // any UTF-8
};
using MetricLabels = std::vector<MetricLabel>;

// A label and all the values that it will ever have, in the order of the numbers they stand for.
struct LabelChoices {
  std::string_view name;
  std::vector<std::string_view> values;
};

enum class MetricKind : uint8_t { kCounter, kGauge, kHistogram };

// Labels and the metric that they tell apart.
struct MetricSample {
  MetricLabels labels;
  std::variant<const Counter*, const Gauge*, const Histogram*> metric;
};

struct MetricFamily {
  MetricText text;
  MetricKind kind;
  double per_unit = 1;  // values are shown divided by it
  std::vector<MetricSample> samples;
};

// Counters or gauges told apart by one or two labels; all of them are there from the start.
template <class Metric>
class MetricTable {
 public:
  MetricTable(size_t rows, size_t columns)
      : rows_(rows), columns_(columns), metrics_(rows * columns) {}

  Metric& At(size_t row, size_t column = 0) {
    REM_CHECK(row < rows_ && column < columns_, "no such value of a label");
    return metrics_[row * columns_ + column];
  }

 private:
  const size_t rows_;
  const size_t columns_;
  std::vector<Metric> metrics_;
};
using CounterTable = MetricTable<Counter>;
using GaugeTable = MetricTable<Gauge>;

// Filled before it is shared; then any thread may raise the metrics and any may read them.
class MetricSet {
 public:
  static constexpr size_t kSamplesMax = 1024;  // of a family

  MetricSet() = default;
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  // In the order in which they were added.
  std::span<const MetricFamily> families() const { return families_; }

  // References stay valid as long as the set does. A name that breaks Prometheus's rules, or that
  // is there already, is a bug (checked).
  Counter& AddCounter(const MetricText& text, double per_unit = 1);
  Gauge& AddGauge(const MetricText& text);
  Histogram& AddHistogram(const MetricText& text, const HistogramBounds& bounds);
  // At(i, j) has value i of `rows` and value j of `columns`.
  CounterTable& AddCounters(const MetricText& text, const LabelChoices& rows,
                            const LabelChoices& columns = {});
  GaugeTable& AddGauges(const MetricText& text, const LabelChoices& rows,
                        const LabelChoices& columns = {});
  // A gauge that is always 1: its labels are the news.
  void AddInfo(const MetricText& text, MetricLabels labels);

 private:
  MetricFamily& AddFamily(const MetricText& text, MetricKind kind, double per_unit);
  template <class Metric>
  MetricTable<Metric>& AddTable(std::deque<MetricTable<Metric>>& tables, MetricFamily& family,
                                const LabelChoices& rows, const LabelChoices& columns);

  std::deque<Counter> counters_;
  std::deque<Gauge> gauges_;
  std::deque<Histogram> histograms_;
  std::deque<CounterTable> counter_tables_;
  std::deque<GaugeTable> gauge_tables_;
  std::vector<MetricFamily> families_;
};

}  // namespace remontoir
