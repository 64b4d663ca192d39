// From our metrics to prometheus-cpp's, whose serialiser writes them; the only file that knows it.
#include "metrics/exposition.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>
#include <vector>

namespace remontoir {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter: return prometheus::MetricType::Counter;
    case MetricKind::kGauge: return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram: break;
  }
  return prometheus::MetricType::Histogram;
}

// Fills in the value.
struct Reader {
  double per_unit;
  prometheus::ClientMetric& out;

  double Shown(int64_t value) const { return static_cast<double>(value) / per_unit; }

  void operator()(const Counter* counter) const { out.counter.value = Shown(counter->value()); }
  void operator()(const Gauge* gauge) const { out.gauge.value = gauge->value(); }
  void operator()(const Histogram* histogram) const {
    const std::span<const int64_t> upper = histogram->upper();
    uint64_t below = 0;
    for (size_t i = 0; i <= upper.size(); ++i) {
      below += static_cast<uint64_t>(histogram->count(i));
      const double bound =
          i < upper.size() ? Shown(upper[i]) : std::numeric_limits<double>::infinity();
      out.histogram.bucket.push_back({below, bound});
    }
    out.histogram.sample_count = below;
    out.histogram.sample_sum = Shown(histogram->sum());
  }
};

void AddLabels(const MetricLabels& labels, prometheus::ClientMetric& out) {
  for (const MetricLabel& label : labels) out.label.push_back({label.name, label.value});
}

}  // namespace

std::string MetricsText(std::span<const MetricSet* const> sets, const MetricLabels& alias_labels) {
  std::vector<prometheus::MetricFamily> page;
  for (const MetricSet* set : sets) {
    for (const MetricFamily& family : set->families()) {
      prometheus::MetricFamily own = {
          std::string(family.text.name), std::string(family.text.help), TypeOf(family.kind), {}};
      prometheus::MetricFamily alias = own;
      alias.name = family.text.alias;
      for (const MetricSample& sample : family.samples) {
        prometheus::ClientMetric metric;
        std::visit(Reader{family.per_unit, metric}, sample.metric);
        // Both are written from one reading.
        prometheus::ClientMetric twin = metric;
        AddLabels(sample.labels, metric);
        AddLabels(alias_labels, twin);
        AddLabels(sample.labels, twin);
        own.metric.push_back(std::move(metric));
        alias.metric.push_back(std::move(twin));
      }
      page.push_back(std::move(own));
      if (!alias.name.empty()) page.push_back(std::move(alias));
    }
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, page);
  return std::move(text).str();
}

}  // namespace remontoir
