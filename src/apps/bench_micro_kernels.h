// The rate of product kernels by themselves: operands in the nearest caches, all threads at once.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/worker_pool.h"
#include "kernels/kernel_table.h"

namespace remontoir {

struct MicroKernelRate {
  PanelFormat format = PanelFormat::kF32;
  std::string type;  // a weight type that is packed so
  double ops_per_second = 0;
};

class MicroKernelRates {
 public:
  // With the kernels that `backend` uses.
  MicroKernelRates(const Backend& backend, int threads);

  // Formats to measure, each once however often it is wanted.
  void Want(PanelFormat format);

  // Takes some tens of milliseconds a format; the best of all calls counts.
  void Measure();

  const std::vector<MicroKernelRate>& rates() const { return rates_; }

  // What so many operations, by format, take at these rates.
  double Seconds(const std::array<double, kPanelFormatCount>& ops_by_format) const;

 private:
  const KernelTable& kernels_;
  WorkerPool pool_;
  std::vector<MicroKernelRate> rates_;
};

}  // namespace remontoir
