// Facts about WorkerPool: every tile once, steps in order, sleepers cost nothing.
#include "base/worker_pool.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace remontoir {
namespace {

// Counts how often each tile ran, and whether anything of an earlier step was still missing.
class CountingJob final : public TileJob {
 public:
  explicit CountingJob(std::vector<int32_t> tiles_of_step) : tiles_(std::move(tiles_of_step)) {
    for (int32_t tiles : tiles_) runs_.emplace_back(static_cast<size_t>(tiles));
  }

  int32_t BeginStep(int32_t step) override {
    for (int32_t earlier = 0; earlier < step; ++earlier) CheckStepRanOnce(earlier);
    return tiles_[static_cast<size_t>(step)];
  }

  // The counters are plain on purpose: the thread sanitizer sees whether steps are ordered.
  void RunTile(int32_t step, int32_t tile, int32_t worker) override {
    ++runs_[static_cast<size_t>(step)][static_cast<size_t>(tile)];
    if (worker < 0) ordered_ = false;
  }

  void CheckStepRanOnce(int32_t step) {
    for (int32_t runs : runs_[static_cast<size_t>(step)]) ordered_ = ordered_ && runs == 1;
  }

  int32_t step_count() const { return static_cast<int32_t>(tiles_.size()); }
  bool ordered() const { return ordered_; }

 private:
  std::vector<int32_t> tiles_;
  std::vector<std::vector<int32_t>> runs_;
  bool ordered_ = true;
};

TEST(WorkerPool, RunsEveryTileOnceAndStepsInOrder) {
  for (int32_t size : {1, 2, 3, 8}) {
    WorkerPool pool(size);
    EXPECT_EQ(pool.size(), size);
    for (int round = 0; round < 300; ++round) {
      CountingJob job({3, 0, 1, 17, 1, 1, 0, 64, 2, 0});
      pool.Run(job, job.step_count());
      for (int32_t step = 0; step < job.step_count(); ++step) job.CheckStepRanOnce(step);
      ASSERT_TRUE(job.ordered()) << "size " << size << " round " << round;
    }
  }
}

TEST(WorkerPool, AnEmptyJobReturns) {
  WorkerPool pool(3);
  CountingJob none({});
  pool.Run(none, 0);
  CountingJob empty({0, 0});
  pool.Run(empty, 2);
  EXPECT_TRUE(empty.ordered());
}

TEST(WorkerPool, ParallelForVisitsEveryIndexOnce) {
  WorkerPool pool(2);
  std::vector<int32_t> visits(1000);
  pool.ParallelFor(1000, [&visits](int32_t i) { ++visits[static_cast<size_t>(i)]; });
  EXPECT_EQ(visits, std::vector<int32_t>(1000, 1));
}

TEST(WorkerPool, WorkersThatFellAsleepJoinAgain) {
  WorkerPool pool(2);
  std::atomic<int32_t> waiting{0};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    waiting = 0;
    // Two tiles that wait for each other end only if two workers run them.
    pool.ParallelFor(2, [&waiting](int32_t) {
      waiting.fetch_add(1);
      while (waiting.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(waiting.load(), 2);
  }
}

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(WorkerPool, IdleWorkersBurnNothing) {
  WorkerPool pool(4);
  pool.ParallelFor(64, [](int32_t) {});
  const double before = ProcessSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(ProcessSeconds() - before, 0.03);
}

TEST(WorkerPool, WaitingForASlowTileBurnsLittle) {
  WorkerPool pool(4);
  const double before = ProcessSeconds();
  pool.ParallelFor(2, [](int32_t tile) {
    if (tile == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  EXPECT_LT(ProcessSeconds() - before, 0.03);
}

}  // namespace
}  // namespace remontoir
