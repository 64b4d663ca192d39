// First tokens after a history that is in the prefix cache, beside what a line through them says.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace remontoir {

struct HistoryRow {
  int32_t history = 0;  // tokens in the prefix cache
  int32_t fresh = 0;    // tokens after them
  int32_t cached = 0;   // of the prompt, as the engine said
  double first_token_ms = 0;
  double low_ms = 0;
  double high_ms = 0;
  double fitted_ms = 0;

  // Mean length of what a fresh token attends to.
  double context() const { return history + fresh / 2.0; }
  double over_fit() const { return first_token_ms / fitted_ms; }
};

struct HistoryCurve {
  std::vector<HistoryRow> rows;
  std::array<double, 3> fit_ms = {};  // a + b * fresh + e * fresh * context
};

// a + b * fresh + e * fresh * context through all rows, by least squares of relative errors; fills
// in fitted_ms. At least three rows that tell the three apart.
void FitHistory(HistoryCurve* curve);

// Medians of `rounds` measurements of each length, in turns.
Result<HistoryCurve> MeasureHistory(const std::string& file, int32_t threads, int32_t rounds);

}  // namespace remontoir
