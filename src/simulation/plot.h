// Draws distributions as an SVG picture.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace remontoir {

struct PlotSeries {
  std::string name;
  std::vector<double> values;  // above 0, any order
};

struct PlotPanel {
  std::string title;  // with the unit
  std::vector<PlotSeries> series;
};

// Panels side by side; in each the share of values up to x, over a logarithmic axis. The same
// input gives the same bytes.
std::string DistributionPlot(const std::string& title, std::span<const PlotPanel> panels);

}  // namespace remontoir
