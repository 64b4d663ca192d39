// What a thread is asked for, and what it keeps.
#include "base/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <thread>

namespace remontoir {
namespace {

// The calling thread's turn as the system tells it; 0 where it tells none.
uint64_t TurnNs() {
  std::array<uint64_t, 6> words = {};  // the system's struct sched_attr; the fourth is the runtime
  if (syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0) != 0) return 0;
  return words[3];
}

int Niceness() {
  errno = 0;
  return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
}

TEST(AskForShortTurns, LeavesPolicyAndNicenessAlone) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), Niceness() + 1), 0);
    const int niceness = Niceness();
    AskForShortTurns();
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    EXPECT_EQ(Niceness(), niceness);
  }).join();
}

TEST(AskForShortTurns, GivesAMillisecondWhereTheSystemHasTurns) {
  std::thread([] {
    const bool has_turns = TurnNs() != 0;
    AskForShortTurns();
    EXPECT_EQ(TurnNs(), has_turns ? 1'000'000u : 0u);
  }).join();
}

TEST(AskForShortTurns, LeavesABatchThreadAsItWas) {
  std::thread([] {
    const sched_param none = {};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    const uint64_t turn = TurnNs();
    AskForShortTurns();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    EXPECT_EQ(TurnNs(), turn);
  }).join();
}

}  // namespace
}  // namespace remontoir
