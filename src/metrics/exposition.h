// The page of /metrics: Prometheus's text format, version 0.0.4.
#pragma once

#include <span>
#include <string>

#include "metrics/metric_set.h"

namespace remontoir {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Every family under its name and, where it has one, under its alias too, there with
// `alias_labels` before its own. Reads what other threads raise meanwhile: a histogram's count is
// that of its buckets, its sum may be a few values ahead or behind.
std::string MetricsText(std::span<const MetricSet* const> sets, const MetricLabels& alias_labels);

}  // namespace remontoir
