// Lines through quantiles; ticks at 1, 2 and 5 of each power of ten.
#include "simulation/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "metrics/distribution.h"

namespace remontoir {
namespace {

constexpr double kWidth = 480;  // of a panel
constexpr double kHeight = 360;
constexpr double kLeft = 52;
constexpr double kRight = 16;
constexpr double kTop = 48;
constexpr double kBottom = 44;
constexpr int kPoints = 200;
constexpr std::array<const char*, 6> kColours = {"#1b6ca8", "#c8553d", "#3c8d5a",
                                                 "#8c5aa8", "#b0892f", "#555555"};

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string Number(double value, const char* format = "%.1f") {
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

void AppendText(std::string& svg, double x, double y, const char* anchor, const std::string& text,
                const char* more = "") {
  svg += "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" text-anchor=\"" + anchor + "\"" +
         more + ">" + Escaped(text) + "</text>\n";
}

void AppendLine(std::string& svg, double x1, double y1, double x2, double y2, const char* colour) {
  svg += "<line x1=\"" + Number(x1) + "\" y1=\"" + Number(y1) + "\" x2=\"" + Number(x2) +
         "\" y2=\"" + Number(y2) + "\" stroke=\"" + colour + "\"/>\n";
}

// The logarithmic axis of a panel.
struct Axis {
  double log_min = 0;
  double log_max = 1;
  double left = 0;

  double X(double value) const {
    const double share = (std::log10(value) - log_min) / (log_max - log_min);
    return left + std::clamp(share, 0.0, 1.0) * (kWidth - kLeft - kRight);
  }
};

double Y(double share) { return kTop + (1 - share) * (kHeight - kTop - kBottom); }

Axis AxisOf(const PlotPanel& panel, double left) {
  double least = INFINITY;
  double most = 0;
  for (const PlotSeries& series : panel.series) {
    for (const double value : series.values) {
      if (value <= 0) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  if (most <= 0) least = most = 1;
  Axis axis{.log_min = std::floor(std::log10(least) * 2) / 2,
            .log_max = std::ceil(std::log10(most) * 2) / 2,
            .left = left};
  if (axis.log_max <= axis.log_min) axis.log_max = axis.log_min + 1;
  return axis;
}

void AppendGrid(std::string& svg, const Axis& axis) {
  for (const double share : {0.0, 0.25, 0.5, 0.75, 0.95, 1.0}) {
    AppendLine(svg, axis.left, Y(share), axis.left + kWidth - kLeft - kRight, Y(share), "#dddddd");
    AppendText(svg, axis.left - 6, Y(share) + 4, "end", Number(share, "%.2f"));
  }
  const bool wide = axis.log_max - axis.log_min > 2.2;
  for (int power = static_cast<int>(std::floor(axis.log_min)); power <= axis.log_max; ++power) {
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, power);
      const double log = std::log10(value);
      if (log < axis.log_min - 1e-9 || log > axis.log_max + 1e-9) continue;
      AppendLine(svg, axis.X(value), Y(0), axis.X(value), Y(1), "#eeeeee");
      if (digit == 1 || !wide) {
        AppendText(svg, axis.X(value), Y(0) + 16, "middle", Number(value, "%g"));
      }
    }
  }
}

void AppendSeries(std::string& svg, const Axis& axis, const PlotSeries& series, size_t i) {
  const char* const colour = kColours[i % kColours.size()];
  const double legend = kTop + 14 + 16 * static_cast<double>(i);
  AppendLine(svg, axis.left + 8, legend - 4, axis.left + 28, legend - 4, colour);
  AppendText(svg, axis.left + 34, legend, "start", series.name);
  std::vector<double> sorted = series.values;
  std::ranges::sort(sorted);
  if (sorted.empty()) return;
  svg += "<polyline fill=\"none\" stroke-width=\"1.6\" stroke=\"" + std::string(colour) +
         "\" points=\"";
  for (int point = 0; point <= kPoints; ++point) {
    const double share = static_cast<double>(point) / kPoints;
    const double value = std::max(Quantile(sorted, share), 1e-9);
    svg += Number(axis.X(value)) + "," + Number(Y(share)) + " ";
  }
  svg += "\"/>\n";
}

}  // namespace

std::string DistributionPlot(const std::string& title, std::span<const PlotPanel> panels) {
  const double width = kWidth * static_cast<double>(panels.size());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + Number(width, "%.0f") +
                    "\" height=\"" + Number(kHeight, "%.0f") +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  AppendText(svg, width / 2, 18, "middle", title, " font-size=\"14\"");
  for (size_t i = 0; i < panels.size(); ++i) {
    const Axis axis = AxisOf(panels[i], kWidth * static_cast<double>(i) + kLeft);
    AppendGrid(svg, axis);
    for (size_t j = 0; j < panels[i].series.size(); ++j) {
      AppendSeries(svg, axis, panels[i].series[j], j);
    }
    AppendText(svg, axis.left + (kWidth - kLeft - kRight) / 2, kHeight - 10, "middle",
               panels[i].title);
  }
  return svg + "</svg>\n";
}

}  // namespace remontoir
