// Facts about the progress bar and the signal waiter.
#include "apps/progress_bar.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "apps/signal_waiter.h"
#include "base/notifier.h"

namespace remontoir {
namespace {

TEST(ProgressBar, DrawsAtMostTenTimesASecondAndClearsItself) {
  ManualClock clock;
  std::vector<std::string> drawn;
  {
    ProgressBar bar("loading", clock, [&](std::string_view text) { drawn.emplace_back(text); });
    bar.Update(0, 200);
    bar.Update(100, 200);  // too soon
    clock.AdvanceUs(100'000);
    bar.Update(0, 200);  // nothing new
    bar.Update(100, 200);
  }
  ASSERT_EQ(drawn.size(), 3u);
  EXPECT_NE(drawn[0].find("loading [                                ]   0 %"), std::string::npos);
  EXPECT_NE(drawn[1].find("loading [################                ]  50 %"), std::string::npos);
  EXPECT_EQ(drawn[2], "\r\x1b[K");
}

TEST(ProgressBar, FitsADetailBehindItIn80Columns) {
  ManualClock clock;
  std::vector<std::string> drawn;
  ProgressBar bar("downloading 10/12", clock,
                  [&](std::string_view text) { drawn.emplace_back(text); });
  bar.Update(100, 200, "1.2 GB of 4.2 GB, 3.4 MB/s, 100 s left");
  clock.AdvanceUs(100'000);
  bar.Update(100, 200, "another");  // at the same percent
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_LT(drawn[0].size() - std::string_view("\r\x1b[K").size(), 80u);
  EXPECT_NE(drawn[1].find("[######      ]  50 %  another"), std::string::npos);
}

TEST(ProgressBar, StaysWithinItsCellsWhateverItIsTold) {
  ManualClock clock;
  std::string last;
  ProgressBar bar("x", clock, [&](std::string_view text) { last = text; });
  bar.Update(5, 0);
  EXPECT_EQ(last, "");
  bar.Update(7, 5);
  EXPECT_NE(last.find("] 100 %"), std::string::npos);
}

TEST(ProgressBar, IsQuietWithoutAWriter) {
  ManualClock clock;
  ProgressBar bar("x", clock, {});
  bar.Update(1, 2);
}

TEST(SignalWaiter, HearsASignalOnItsOwnThread) {
  Notifier heard;
  std::vector<int> signals;
  {
    SignalWaiter waiter({SIGUSR1}, [&](int signal) {
      signals.push_back(signal);
      heard.Notify();
    });
    kill(getpid(), SIGUSR1);
    EXPECT_TRUE(heard.Wait(10'000));
  }
  EXPECT_EQ(signals, std::vector<int>{SIGUSR1});
}

TEST(SignalWaiter, EndsWithoutASignal) {
  const SignalWaiter waiter({SIGUSR2}, [](int) { FAIL(); });
}

}  // namespace
}  // namespace remontoir
