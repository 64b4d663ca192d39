// Threads that work through steps of small tiles; a worker that is descheduled holds up only its
// tile.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/thread_counters.h"

namespace remontoir {

// Work in steps: the tiles of a step run in any order on any worker, and a step begins when all
// tiles of the one before are done.
class TileJob {
 public:
  virtual ~TileJob() = default;

  // Runs on one worker before the step's tiles, ordered after everything of earlier steps. Returns
  // how many tiles the step has; 0 skips it.
  virtual int32_t BeginStep(int32_t step) = 0;

  // worker is 0 ... WorkerPool::size() - 1 and never runs two tiles at once: it names scratch.
  virtual void RunTile(int32_t step, int32_t tile, int32_t worker) = 0;
};

// The caller of Run is worker 0. There is no barrier that every worker must reach: who finishes a
// step's last tile opens the next step, and late workers join whatever step is open. Waiting spins
// for some microseconds (fewer when spinning has been in vain), then sleeps in the kernel.
class WorkerPool {
 public:
  explicit WorkerPool(int32_t size);  // workers, the calling thread included
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int32_t size() const { return static_cast<int32_t>(threads_.size()) + 1; }

  // Runs steps 0 ... step_count - 1 and returns when all are done. Allocates nothing. One caller at
  // a time; a new one's thread is asked for short turns, as all workers are (base/time_slice.h).
  void Run(TileJob& job, int32_t step_count);

  // What all workers but the callers of Run have cost since they were ready for work, as each noted
  // it when it last found nothing to do. Any thread.
  ThreadCosts WorkerCosts() const;

  // Calls body(index) for 0 ... count - 1 on all workers.
  template <class Body>
  void ParallelFor(int32_t count, Body&& body) {
    struct Loop final : TileJob {
      Loop(int32_t n, Body& b) : count(n), body(b) {}
      int32_t BeginStep(int32_t) override { return count; }
      void RunTile(int32_t, int32_t tile, int32_t) override { body(tile); }
      int32_t count;
      Body& body;
    } loop(count, body);
    Run(loop, 1);
  }

 private:
  // How long a worker spins before it sleeps: its own memory of what was worth it.
  struct Patience {
    int32_t spins;
  };

  struct alignas(64) Costs {
    std::atomic<int64_t> heap_allocations{0};
    std::atomic<int64_t> page_faults{0};
  };

  void WorkerLoop(int32_t worker);
  void NoteCosts(int32_t worker, const ThreadCosts& costs);
  bool ClaimTile(int32_t* tile);
  void FinishTile(int32_t worker);
  void OpenNextStep(int32_t worker);
  void Publish(uint32_t tiles);
  void WaitForNews(uint32_t seen, Patience* patience);

  // High 40 bits: number of the open step since the pool was made; low 24: tiles not yet claimed.
  // In one word, so that a claim can't mix two steps.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<int32_t> unfinished_{0};  // tiles of the open step
  alignas(64) std::atomic<uint32_t> news_{0};       // changes whenever a waiter should look again
  std::atomic<bool> round_done_{true};
  std::atomic<bool> stop_{false};

  // Written while no tile is claimed, read only while holding one or opening a step.
  alignas(64) TileJob* job_ = nullptr;
  int32_t step_ = 0;
  int32_t step_count_ = 0;
  uint32_t step_tiles_ = 0;

  Patience caller_patience_;
  std::thread::id caller_;    // of the last Run
  std::vector<Costs> costs_;  // of workers 1, 2, ...
  std::vector<std::thread> threads_;
};

}  // namespace remontoir
