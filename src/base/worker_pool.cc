// Claiming tiles, opening steps and waiting.
#include "base/worker_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/stack.h"
#include "base/time_slice.h"

namespace remontoir {
namespace {

constexpr int kTileBits = 24;
constexpr uint64_t kTileMask = (uint64_t{1} << kTileBits) - 1;

// A pause takes some 10 to 50 ns: from about a microsecond to some tens.
constexpr int32_t kSpinsMin = 64;
constexpr int32_t kSpinsMax = 2048;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WorkerPool::WorkerPool(int32_t size)
    : caller_patience_{kSpinsMax}, costs_(static_cast<size_t>(std::max(size, 1)) - 1) {
  REM_CHECK(size > 0, "a pool has at least the calling thread");
  threads_.reserve(static_cast<size_t>(size) - 1);
  for (int32_t worker = 1; worker < size; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

WorkerPool::~WorkerPool() {
  stop_.store(true, std::memory_order_release);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Run(TileJob& job, int32_t step_count) {
  REM_CHECK(round_done_.load(std::memory_order_relaxed), "one Run at a time");
  if (const std::thread::id caller = std::this_thread::get_id(); caller != caller_) {
    caller_ = caller;
    AskForShortTurns();
  }
  job_ = &job;
  step_ = -1;
  step_count_ = step_count;
  round_done_.store(false, std::memory_order_relaxed);
  OpenNextStep(0);
  for (;;) {
    const uint32_t seen = news_.load(std::memory_order_acquire);
    int32_t tile = 0;
    if (ClaimTile(&tile)) {
      job.RunTile(step_, tile, 0);
      FinishTile(0);
    } else if (round_done_.load(std::memory_order_acquire)) {
      return;
    } else {
      WaitForNews(seen, &caller_patience_);
    }
  }
}

void WorkerPool::WorkerLoop(int32_t worker) {
  PrefaultStack();
  AskForShortTurns();
  const ThreadCosts costs_before = CostsOfThread();
  Patience patience{kSpinsMax};
  for (;;) {
    const uint32_t seen = news_.load(std::memory_order_acquire);
    int32_t tile = 0;
    if (ClaimTile(&tile)) {
      job_->RunTile(step_, tile, worker);
      FinishTile(worker);
    } else if (stop_.load(std::memory_order_acquire)) {
      return;
    } else {
      // Between rounds nobody waits for us.
      if (round_done_.load(std::memory_order_acquire)) {
        NoteCosts(worker, CostsOfThread() - costs_before);
      }
      WaitForNews(seen, &patience);
    }
  }
}

void WorkerPool::NoteCosts(int32_t worker, const ThreadCosts& costs) {
  Costs& noted = costs_[static_cast<size_t>(worker) - 1];
  noted.heap_allocations.store(costs.heap_allocations, std::memory_order_relaxed);
  noted.page_faults.store(costs.page_faults, std::memory_order_relaxed);
}

ThreadCosts WorkerPool::WorkerCosts() const {
  ThreadCosts sum;
  for (const Costs& noted : costs_) {
    sum.heap_allocations += noted.heap_allocations.load(std::memory_order_relaxed);
    sum.page_faults += noted.page_faults.load(std::memory_order_relaxed);
  }
  return sum;
}

// Takes one tile of the open step. Until it is finished the step stays open, so the step's fields
// hold still.
bool WorkerPool::ClaimTile(int32_t* tile) {
  uint64_t open = open_.load(std::memory_order_acquire);
  while ((open & kTileMask) != 0) {
    if (open_.compare_exchange_weak(open, open - 1, std::memory_order_acquire)) {
      *tile = static_cast<int32_t>(step_tiles_ - (open & kTileMask));
      return true;
    }
  }
  return false;
}

void WorkerPool::FinishTile(int32_t worker) {
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) OpenNextStep(worker);
}

// Opens the next step that has tiles for others; a step of one tile is run here, because handing it
// over costs more than most such tiles.
void WorkerPool::OpenNextStep(int32_t worker) {
  while (++step_ < step_count_) {
    const int32_t tiles = job_->BeginStep(step_);
    REM_CHECK(tiles >= 0 && static_cast<uint64_t>(tiles) <= kTileMask, "tiles of a step");
    if (tiles > 1) {
      Publish(static_cast<uint32_t>(tiles));
      return;
    }
    if (tiles == 1) job_->RunTile(step_, 0, worker);
  }
  round_done_.store(true, std::memory_order_release);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
}

void WorkerPool::Publish(uint32_t tiles) {
  step_tiles_ = tiles;
  unfinished_.store(static_cast<int32_t>(tiles), std::memory_order_relaxed);
  const uint64_t number = (open_.load(std::memory_order_relaxed) >> kTileBits) + 1;
  open_.store(number << kTileBits | tiles, std::memory_order_release);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
}

void WorkerPool::WaitForNews(uint32_t seen, Patience* patience) {
  for (int32_t i = 0; i < patience->spins; ++i) {
    if (news_.load(std::memory_order_acquire) != seen) {
      patience->spins = std::min(patience->spins * 2, kSpinsMax);
      return;
    }
    Pause();
  }
  // In vain: whoever has the work isn't running, perhaps because we are.
  patience->spins = std::max(patience->spins / 2, kSpinsMin);
  news_.wait(seen, std::memory_order_acquire);
}

}  // namespace remontoir
