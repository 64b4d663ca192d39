// Takes metrics in, and holds their names to the rules of the text format.
#include "metrics/metric_set.h"

#include <algorithm>
#include <utility>

namespace remontoir {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsLabelName(std::string_view name) {
  return !name.empty() && !IsDigit(name.front()) &&
         std::ranges::all_of(name, [](char c) { return IsLetter(c) || IsDigit(c); });
}

bool IsMetricName(std::string_view name) {
  return !name.empty() && !IsDigit(name.front()) &&
         std::ranges::all_of(name, [](char c) { return IsLetter(c) || IsDigit(c) || c == ':'; });
}

bool IsHelp(std::string_view help) {
  return !help.empty() && help.find_first_of("\n\\") == std::string_view::npos;
}

}  // namespace

MetricFamily& MetricSet::AddFamily(const MetricText& text, MetricKind kind, double per_unit) {
  const std::string name(text.name);
  REM_CHECK(IsMetricName(text.name), name + ": not a metric's name");
  REM_CHECK(text.alias.empty() || IsMetricName(text.alias), name + ": not a name for its alias");
  REM_CHECK((kind == MetricKind::kCounter) == text.name.ends_with("_total"),
            name + ": counters end in _total, and nothing else does");
  REM_CHECK(IsHelp(text.help), name + ": its help must be one line");
  for (const MetricFamily& family : families_) {
    REM_CHECK(family.text.name != text.name, name + ": added twice");
  }
  return families_.emplace_back(MetricFamily{text, kind, per_unit, {}});
}

Counter& MetricSet::AddCounter(const MetricText& text, double per_unit) {
  Counter& counter = counters_.emplace_back();
  AddFamily(text, MetricKind::kCounter, per_unit).samples.push_back({{}, &counter});
  return counter;
}

Gauge& MetricSet::AddGauge(const MetricText& text) {
  Gauge& gauge = gauges_.emplace_back();
  AddFamily(text, MetricKind::kGauge, 1).samples.push_back({{}, &gauge});
  return gauge;
}

Histogram& MetricSet::AddHistogram(const MetricText& text, const HistogramBounds& bounds) {
  Histogram& histogram = histograms_.emplace_back(bounds);
  AddFamily(text, MetricKind::kHistogram, bounds.per_unit).samples.push_back({{}, &histogram});
  return histogram;
}

template <class Metric>
MetricTable<Metric>& MetricSet::AddTable(std::deque<MetricTable<Metric>>& tables,
                                         MetricFamily& family, const LabelChoices& rows,
                                         const LabelChoices& columns) {
  const std::string name(family.text.name);
  const size_t column_count = std::max<size_t>(columns.values.size(), 1);
  REM_CHECK(rows.values.size() * column_count <= kSamplesMax,
            name + ": too many values of its labels");
  REM_CHECK(IsLabelName(rows.name) && (columns.values.empty() || IsLabelName(columns.name)),
            name + ": not a label's name");
  MetricTable<Metric>& table = tables.emplace_back(rows.values.size(), column_count);
  for (size_t row = 0; row < rows.values.size(); ++row) {
    for (size_t column = 0; column < column_count; ++column) {
      MetricLabels labels = {{std::string(rows.name), std::string(rows.values[row])}};
      if (!columns.values.empty()) {
        labels.push_back({std::string(columns.name), std::string(columns.values[column])});
      }
      family.samples.push_back({std::move(labels), &table.At(row, column)});
    }
  }
  return table;
}

CounterTable& MetricSet::AddCounters(const MetricText& text, const LabelChoices& rows,
                                     const LabelChoices& columns) {
  return AddTable(counter_tables_, AddFamily(text, MetricKind::kCounter, 1), rows, columns);
}

GaugeTable& MetricSet::AddGauges(const MetricText& text, const LabelChoices& rows,
                                 const LabelChoices& columns) {
  return AddTable(gauge_tables_, AddFamily(text, MetricKind::kGauge, 1), rows, columns);
}

void MetricSet::AddInfo(const MetricText& text, MetricLabels labels) {
  for (const MetricLabel& label : labels) {
    REM_CHECK(IsLabelName(label.name), std::string(text.name) + ": not a label's name");
  }
  Gauge& gauge = gauges_.emplace_back();
  gauge.Set(1);
  AddFamily(text, MetricKind::kGauge, 1).samples.push_back({std::move(labels), &gauge});
}

}  // namespace remontoir
