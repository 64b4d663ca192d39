// `bench kv`: the fit through first tokens after a history.
#include <gtest/gtest.h>

#include "apps/bench_kv_history.h"

namespace remontoir {
namespace {

HistoryCurve CurveOf(double a, double b, double e) {
  HistoryCurve curve;
  for (const int32_t history : {0, 100, 2048, 8000}) {
    for (const int32_t fresh : {32, 128}) {
      HistoryRow row = {.history = history, .fresh = fresh};
      row.first_token_ms = a + b * fresh + e * fresh * row.context();
      curve.rows.push_back(row);
    }
  }
  return curve;
}

TEST(FitHistory, FindsTheTermsThatMadeTheTimes) {
  HistoryCurve curve = CurveOf(5, 1.5, 8e-4);
  FitHistory(&curve);
  EXPECT_NEAR(curve.fit_ms[0], 5, 1e-6);
  EXPECT_NEAR(curve.fit_ms[1], 1.5, 1e-6);
  EXPECT_NEAR(curve.fit_ms[2], 8e-4, 1e-9);
  for (const HistoryRow& row : curve.rows) EXPECT_NEAR(row.over_fit(), 1, 1e-9);
}

TEST(FitHistory, AStepAtOneLengthShowsThere) {
  HistoryCurve curve = CurveOf(5, 1.5, 8e-4);
  curve.rows[4].first_token_ms *= 1.5;
  FitHistory(&curve);
  EXPECT_GT(curve.rows[4].over_fit(), 1.2);
  for (size_t i = 0; i < curve.rows.size(); ++i) {
    if (i == 4) continue;
    EXPECT_LT(curve.rows[i].over_fit(), 1.1);
  }
}

}  // namespace
}  // namespace remontoir
