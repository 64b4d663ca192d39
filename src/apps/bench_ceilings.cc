// Loops that do one thing only: read, multiply-add bytes, multiply-add floats.
#include "apps/bench_ceilings.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "backend/memory_region.h"
#include "base/worker_pool.h"

namespace remontoir {
namespace {

constexpr int64_t kRegionBytes = int64_t{512} << 20;
constexpr int64_t kCachedBytes = int64_t{192} << 10;
constexpr int kCachedPasses = 2000;
constexpr int kTries = 7;
constexpr int64_t kLoops = 4'000'000;  // of a microkernel: some milliseconds
constexpr int kChains = 12;            // independent sums: more than latency times width

// Keeps the compiler from knowing what a register holds.
#define REM_OPAQUE(value) asm volatile("" : "+x"(value))

__attribute__((target("avx2,fma"))) void FmaAvx2(int64_t loops) {
  __m256 sums[kChains];
  __m256 a = _mm256_set1_ps(1e-6f);
  for (__m256& sum : sums) sum = a;
  for (int64_t i = 0; i < loops; ++i) {
    REM_OPAQUE(a);
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(a, a, sum);
  }
  for (__m256& sum : sums) REM_OPAQUE(sum);
}

// Eight products of 4-bit and 8-bit numbers fit the 16-bit sums, then they are widened.
__attribute__((target("avx2"))) void Int8Avx2(int64_t loops) {
  constexpr int kPerWidening = 8;
  constexpr int kParallel = 4;
  __m256i wide[kParallel];
  __m256i weights = _mm256_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi16(1);
  for (__m256i& sum : wide) sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < loops; ++i) {
    __m256i narrow[kParallel];
    for (int k = 0; k < kPerWidening; ++k) {
      for (int p = 0; p < kParallel; ++p) {
        REM_OPAQUE(weights);  // else one product would serve all
        const __m256i product = _mm256_maddubs_epi16(weights, weights);
        narrow[p] = k == 0 ? product : _mm256_add_epi16(narrow[p], product);
      }
    }
    for (int p = 0; p < kParallel; ++p) {
      wide[p] = _mm256_add_epi32(wide[p], _mm256_madd_epi16(narrow[p], ones));
    }
  }
  for (__m256i& sum : wide) REM_OPAQUE(sum);
}

__attribute__((target("avx2,avxvnni"))) void Int8AvxVnni(int64_t loops) {
  __m256i sums[kChains];
  __m256i a = _mm256_set1_epi8(1);
  for (__m256i& sum : sums) sum = a;
  for (int64_t i = 0; i < loops; ++i) {
    REM_OPAQUE(a);
    for (__m256i& sum : sums) sum = _mm256_dpbusd_avx_epi32(sum, a, a);
  }
  for (__m256i& sum : sums) REM_OPAQUE(sum);
}

#undef REM_OPAQUE
#define REM_OPAQUE(value) asm volatile("" : "+v"(value))

__attribute__((target("avx512f"))) void FmaAvx512(int64_t loops) {
  __m512 sums[kChains];
  __m512 a = _mm512_set1_ps(1e-6f);
  for (__m512& sum : sums) sum = a;
  for (int64_t i = 0; i < loops; ++i) {
    REM_OPAQUE(a);
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(a, a, sum);
  }
  for (__m512& sum : sums) REM_OPAQUE(sum);
}

__attribute__((target("avx512f,avx512vnni"))) void Int8Avx512Vnni(int64_t loops) {
  __m512i sums[kChains];
  __m512i a = _mm512_set1_epi32(0x01010101);
  for (__m512i& sum : sums) sum = a;
  for (int64_t i = 0; i < loops; ++i) {
    REM_OPAQUE(a);
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, a);
  }
  for (__m512i& sum : sums) REM_OPAQUE(sum);
}

#undef REM_OPAQUE

struct PeakKernels {
  std::string_view name;  // as KernelTable spells it
  void (*int8)(int64_t loops);
  double int8_ops_per_loop;
  void (*f32)(int64_t loops);
  double f32_ops_per_loop;
};

constexpr PeakKernels kAvx2 = {"avx2", Int8Avx2, 2.0 * 8 * 4 * 32, FmaAvx2, 2.0 * kChains * 8};
constexpr PeakKernels kAvxVnni = {"avxvnni", Int8AvxVnni, 2.0 * kChains * 32, FmaAvx2,
                                  2.0 * kChains * 8};
constexpr PeakKernels kAvx512Vnni = {"avx512", Int8Avx512Vnni, 2.0 * kChains * 64, FmaAvx512,
                                     2.0 * kChains * 16};

bool HasAvxVnni() {
  unsigned eax = 7, ebx = 0, ecx = 1, edx = 0;
  asm("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (eax & (1u << 4)) != 0;
}

std::vector<PeakKernels> Available() {
  std::vector<PeakKernels> available;
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return available;
  available.push_back(kAvx2);
  if (HasAvxVnni()) available.push_back(kAvxVnni);
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vnni") != 0) {
    available.push_back(kAvx512Vnni);
  }
  return available;
}

struct Rates {
  double best = 0;
  double mean = 0;
};

// Work per second of `body(share)`, run once by every thread at the same time, of some tries.
template <class Body>
Rates RatesOf(WorkerPool& pool, double work, Body body) {
  Rates rates;
  double all_seconds = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(pool.size(), body);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rates.best = std::max(rates.best, work / seconds.count());
    all_seconds += seconds.count();
  }
  rates.mean = work * kTries / all_seconds;
  return rates;
}

__attribute__((target("avx2"))) void Read(const std::byte* begin, int64_t bytes) {
  __m256i sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 128) {
    const auto* vectors = reinterpret_cast<const __m256i*>(begin + i);
    for (int p = 0; p < 4; ++p) {
      sums[p] = _mm256_add_epi64(sums[p], _mm256_load_si256(vectors + p));
    }
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
}

}  // namespace

std::vector<std::string_view> CeilingInstructionSets() {
  std::vector<std::string_view> names;
  for (const PeakKernels& kernels : Available()) names.push_back(kernels.name);
  return names;
}

FmaLoop FmaLoopOf(std::string_view instruction_set) {
  for (const PeakKernels& kernels : Available()) {
    if (kernels.name == instruction_set) return {kernels.f32, kernels.f32_ops_per_loop};
  }
  return {};
}

// The region stays for as long as ceilings are measured: pages taken anew cost a host that lends
// its memory far more than the measurements.
struct CeilingMeter::Parts {
  explicit Parts(int threads) : pool(threads) {}

  int64_t Share() const { return kRegionBytes / pool.size() / 128 * 128; }
  Rates ReadRates() {
    const int64_t share = Share();
    return RatesOf(pool, static_cast<double>(share) * pool.size(),
                   [&](int thread) { Read(region.data() + thread * share, share); });
  }

  PeakKernels kernels = kAvx2;
  WorkerPool pool;
  MemoryRegion region;
};

CeilingMeter::CeilingMeter(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CeilingMeter::CeilingMeter(CeilingMeter&&) noexcept = default;
CeilingMeter::~CeilingMeter() = default;

Result<CeilingMeter> CeilingMeter::Open(int threads, std::string_view instruction_set) {
  const std::vector<PeakKernels> available = Available();
  if (available.empty()) return Unsupported("bench: this processor has no AVX2");
  auto parts = std::make_unique<Parts>(threads);
  parts->kernels = available.back();
  for (const PeakKernels& one : available) {
    if (one.name == instruction_set) parts->kernels = one;
  }
  REM_ASSIGN_OR_RETURN(parts->region, MemoryRegion::Take(kRegionBytes, "bench region"));
  parts->region.Prefault(parts->pool);
  CeilingMeter meter(std::move(parts));
  meter.best_.instruction_set = meter.parts_->kernels.name;
  meter.best_.threads = threads;
  meter.Measure();
  return meter;
}

const Ceilings& CeilingMeter::Measure() {
  const PeakKernels& kernels = parts_->kernels;
  WorkerPool& pool = parts_->pool;
  const std::byte* region = parts_->region.data();
  const int threads = pool.size();
  Ceilings now = best_;
  const double loops = static_cast<double>(kLoops) * threads;
  now.int8_ops_per_second =
      RatesOf(pool, loops * kernels.int8_ops_per_loop, [&](int) { kernels.int8(kLoops); }).best;
  now.f32_ops_per_second =
      RatesOf(pool, loops * kernels.f32_ops_per_loop, [&](int) { kernels.f32(kLoops); }).best;
  now.read_bytes_per_second = parts_->ReadRates().best;
  const int64_t share = parts_->Share();
  const double cached = static_cast<double>(kCachedBytes) * kCachedPasses * threads;
  now.cached_bytes_per_second = RatesOf(pool, cached, [&](int thread) {
                                  for (int pass = 0; pass < kCachedPasses; ++pass) {
                                    Read(region + thread * share, kCachedBytes);
                                  }
                                }).best;
  best_ = BestOf(best_, now);
  return best_;
}

Ceilings CeilingMeter::Now() {
  const Rates read = parts_->ReadRates();
  best_.read_bytes_per_second = std::max(best_.read_bytes_per_second, read.best);
  Ceilings now = best_;
  now.read_bytes_per_second = read.mean;
  return now;
}

Ceilings Between(const Ceilings& before, const Ceilings& after) {
  Ceilings between = after;
  between.read_bytes_per_second = (before.read_bytes_per_second + after.read_bytes_per_second) / 2;
  return between;
}

Ceilings BestOf(const Ceilings& a, const Ceilings& b) {
  Ceilings best = a;
  best.read_bytes_per_second = std::max(a.read_bytes_per_second, b.read_bytes_per_second);
  best.cached_bytes_per_second = std::max(a.cached_bytes_per_second, b.cached_bytes_per_second);
  best.int8_ops_per_second = std::max(a.int8_ops_per_second, b.int8_ops_per_second);
  best.f32_ops_per_second = std::max(a.f32_ops_per_second, b.f32_ops_per_second);
  return best;
}

}  // namespace remontoir
