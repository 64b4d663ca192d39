// The window's formula and the cut rule, at the values that the specification works out.
#include "scheduler/window.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace remontoir {
namespace {

struct WindowCase {
  std::string name;
  WindowInputs inputs;
  double ms_least;
  double ms_greatest;
};

// o = 6.3 + 1.71 D ms, as on two cores.
double OverheadS(int32_t decoders) { return 0.0063 + 0.00171 * decoders; }

TEST(Window, FollowsTheArticlesCases) {
  const std::vector<WindowCase> cases = {
      {"a burst, nobody decodes", {OverheadS(0), 4, 0, 40}, 71, 90},
      {"a burst beside a decoder", {OverheadS(1), 5, 1, 40}, 71, 90},
      {"one long text, calm", {OverheadS(0), 1, 0, 0}, 120, 120},
      {"two long texts, few arrivals", {OverheadS(0), 2, 0, 2}, 119, 120},
      {"frequent short ones", {OverheadS(2), 1, 2, 50}, 50, 50},
      {"many decoders", {OverheadS(7), 1, 7, 0}, 110, 120},
  };
  for (const WindowCase& c : cases) {
    SCOPED_TRACE(c.name);
    const double ms = static_cast<double>(AdaptiveWindowUs({}, c.inputs)) / 1000;
    EXPECT_GE(ms, c.ms_least);
    EXPECT_LE(ms, c.ms_greatest);
  }
}

TEST(Window, ShrinksWithArrivalsAndDecodersAndGrowsWithPrompts) {
  const SchedulerOptions wide = {.window_us_min = 0, .window_us_max = 10'000'000};
  const auto window = [&](int32_t prompts, int32_t decoders, double arrivals) {
    return AdaptiveWindowUs(wide, {0.01, prompts, decoders, arrivals});
  };
  EXPECT_LT(window(1, 0, 10), window(1, 0, 0));
  EXPECT_LT(window(1, 4, 0), window(1, 0, 0));
  EXPECT_GT(window(4, 4, 0), window(1, 4, 0));
}

TEST(Window, IgnoresTheForecastAtWeightNull) {
  SchedulerOptions options;
  options.forecast_weight = 0;
  EXPECT_EQ(AdaptiveWindowUs(options, {0.01, 1, 4, 0}),
            AdaptiveWindowUs(options, {0.01, 1, 4, 99}));
}

TEST(Window, KeepsToItsBoundsWhateverItIsTold) {
  const SchedulerOptions options;
  for (const double overhead : {0.0, 1e-9, 1.0, 1e9}) {
    for (const double arrivals : {0.0, 1e12}) {
      const int64_t us = AdaptiveWindowUs(options, {overhead, 0, 0, arrivals});
      EXPECT_GE(us, options.window_us_min);
      EXPECT_LE(us, options.window_us_max);
    }
  }
}

TEST(CutRule, TakesTheFirstPromptWhole) {
  const CutRule cut({}, 0.006, 0);
  EXPECT_EQ(cut.Allow(0.1, 1), 0.1);
}

TEST(CutRule, EndsTheBatchBeforeALongPromptThatWouldHoldUpAFinishedOne) {
  CutRule cut({}, 0.006, 0);
  cut.Take(0.02, true);
  EXPECT_EQ(cut.Allow(0.005, 1), 0.005);  // cheaper than a round of its own
  EXPECT_EQ(cut.Allow(0.1, 1), 0.006);    // as much as a round's overhead
  cut.Take(0.005, true);
  EXPECT_EQ(cut.Allow(0.1, 1), 0);  // two would wait for it
  EXPECT_GT(cut.Allow(0.1, 4), 0);  // but four would pay for the cut
}

TEST(CutRule, CutsForExpectedArrivals) {
  const CutRule calm({}, 0.006, 0);
  const CutRule busy({}, 0.006, 60);
  EXPECT_EQ(calm.Allow(0.1, 1), 0.1);
  EXPECT_LT(busy.Allow(0.1, 1), 0.1);
}

}  // namespace
}  // namespace remontoir
