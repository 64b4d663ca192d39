// Every thread multiplies operands of its own.
#include "apps/bench_micro_kernels.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "apps/bench_kernel_cases.h"
#include "base/check.h"

namespace remontoir {
namespace {

constexpr int kTries = 5;
constexpr double kTryOps = 4e8;  // a thread: some milliseconds

// The first weight type that is packed so.
DType TypeOf(PanelFormat format) {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto candidate = static_cast<DType>(type);
    const int64_t width = Info(candidate).block_elements;
    if (PlanPacking(candidate, kPanelRows, width, false).format == format) return candidate;
  }
  REM_CHECK(false, "every format has a type");
  return DType::kF32;
}

// A back end's description ends with its kernels' name.
const KernelTable& KernelsOf(const Backend& backend) {
  const std::string description = backend.Describe();
  const size_t space = description.rfind(' ');
  const KernelTable* kernels =
      space == std::string::npos ? nullptr : KernelsByName(description.substr(space + 1));
  return kernels == nullptr ? BestKernels() : *kernels;
}

}  // namespace

MicroKernelRates::MicroKernelRates(const Backend& backend, int threads)
    : kernels_(KernelsOf(backend)), pool_(threads) {}

void MicroKernelRates::Want(PanelFormat format) {
  const auto known = std::find_if(rates_.begin(), rates_.end(),
                                  [format](const auto& rate) { return rate.format == format; });
  if (known == rates_.end()) rates_.push_back({format, std::string(Info(TypeOf(format)).name)});
}

void MicroKernelRates::Measure() {
  for (MicroKernelRate& rate : rates_) {
    const KernelCase kernel = MicroKernelCase(TypeOf(rate.format));
    std::vector<std::function<void()>> calls;
    calls.reserve(static_cast<size_t>(pool_.size()));
    for (int32_t t = 0; t < pool_.size(); ++t) calls.push_back(kernel.prepare(kernels_));
    const double ops = kernel.int8_ops + kernel.f32_ops;
    const auto repeats = static_cast<int64_t>(kTryOps / ops) + 1;
    for (int i = 0; i < kTries; ++i) {
      const auto start = std::chrono::steady_clock::now();
      pool_.ParallelFor(pool_.size(), [&](int32_t thread) {
        for (int64_t r = 0; r < repeats; ++r) calls[static_cast<size_t>(thread)]();
      });
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      rate.ops_per_second = std::max(
          rate.ops_per_second, ops * static_cast<double>(repeats) * pool_.size() / passed.count());
    }
  }
}

double MicroKernelRates::Seconds(const std::array<double, kPanelFormatCount>& ops_by_format) const {
  double seconds = 0;
  for (const MicroKernelRate& rate : rates_) {
    seconds += ops_by_format[static_cast<size_t>(rate.format)] / rate.ops_per_second;
  }
  return seconds;
}

}  // namespace remontoir
