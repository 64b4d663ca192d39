// Runs each case for some tens of milliseconds a try; the middle try counts.
#include "apps/bench_kernels.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "api/json_writer.h"
#include "apps/bench_ceilings.h"
#include "apps/bench_engine.h"
#include "apps/bench_kernel_cases.h"
#include "apps/bench_statistics.h"

namespace remontoir {
namespace {

constexpr int kTries = 5;
constexpr double kTrySeconds = 0.03;
constexpr double kGiga = 1e9;

struct MeasuredKernel {
  KernelCase kernel;
  Spread seconds;  // of one call
  double ceiling_seconds = 0;

  // Arithmetic where it takes longer than reading would.
  bool by_reading = false;
  double amount() const {
    return (by_reading ? kernel.bytes : kernel.int8_ops + kernel.f32_ops) / kGiga;
  }
  double rate() const { return amount() / seconds.median; }
  double ceiling_rate() const { return amount() / ceiling_seconds; }
  const char* unit() const { return by_reading ? "GB/s" : "GOP/s"; }
  double ratio() const { return ceiling_seconds / seconds.median; }
};

double SecondsOf(const std::function<void()>& call, int64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Spread Time(const std::function<void()>& call) {
  int64_t calls = 1;
  double seconds = SecondsOf(call, calls);
  while (seconds < kTrySeconds) {
    const double wanted = static_cast<double>(calls) * kTrySeconds / std::max(seconds, 1e-9);
    calls = std::max(calls * 2, std::min(calls * 100, static_cast<int64_t>(wanted * 1.1)));
    seconds = SecondsOf(call, calls);
  }
  std::array<double, kTries> tries;
  for (double& once : tries) once = SecondsOf(call, calls) / static_cast<double>(calls);
  return SpreadOf(tries);
}

void SetCeiling(const Ceilings& ceilings, MeasuredKernel* measured) {
  const KernelCase& kernel = measured->kernel;
  const double compute =
      kernel.int8_ops / ceilings.int8_ops_per_second + kernel.f32_ops / ceilings.f32_ops_per_second;
  const double read = kernel.bytes / (kernel.from_cache ? ceilings.cached_bytes_per_second
                                                        : ceilings.read_bytes_per_second);
  measured->by_reading = read > compute;
  measured->ceiling_seconds = std::max(read, compute);
}

void PrintTable(const std::vector<MeasuredKernel>& rows, const std::string& isa,
                const Ceilings& ceilings, std::FILE* out) {
  std::fprintf(out, "%s kernels, one thread\n", isa.c_str());
  std::fprintf(out,
               "ceilings (%s): read %.1f GB/s, read from cache %.0f GB/s, int8 %.0f GOP/s, f32 "
               "%.0f GFLOP/s\n\n",
               ceilings.instruction_set.c_str(), ceilings.read_bytes_per_second / kGiga,
               ceilings.cached_bytes_per_second / kGiga, ceilings.int8_ops_per_second / kGiga,
               ceilings.f32_ops_per_second / kGiga);
  std::fprintf(out, "%-17s %-7s %-22s %11s %12s %12s %7s\n", "operation", "type", "shape",
               "microsecs", "rate", "ceiling", "ratio");
  for (const MeasuredKernel& row : rows) {
    std::fprintf(out, "%-17s %-7s %-22s %11.2f %6.1f %-5s %6.1f %-5s %6.3f\n",
                 row.kernel.operation.c_str(), row.kernel.type.c_str(), row.kernel.shape.c_str(),
                 row.seconds.median * 1e6, row.rate(), row.unit(), row.ceiling_rate(), row.unit(),
                 row.ratio());
  }
}

void WriteNumber(JsonWriter& json, const char* key, double value) {
  json.Key(key).Float(static_cast<float>(value));
}

void PrintJson(const std::vector<MeasuredKernel>& rows, const std::string& isa,
               const Ceilings& ceilings, std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("instruction_set").String(isa);
  json.Key("ceilings").Raw(CeilingsJson(ceilings));
  json.Key("rows").BeginArray();
  for (const MeasuredKernel& row : rows) {
    json.BeginObject();
    json.Key("operation").String(row.kernel.operation);
    json.Key("type").String(row.kernel.type);
    json.Key("shape").String(row.kernel.shape);
    json.Key("microseconds").BeginObject();
    WriteNumber(json, "median", row.seconds.median * 1e6);
    WriteNumber(json, "low", row.seconds.low * 1e6);
    WriteNumber(json, "high", row.seconds.high * 1e6);
    json.EndObject();
    json.Key("unit").String(row.unit());
    WriteNumber(json, "rate", row.rate());
    WriteNumber(json, "ceiling", row.ceiling_rate());
    WriteNumber(json, "ratio", row.ratio());
    json.EndObject();
  }
  json.EndArray().EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace

Status BenchKernels(const BenchKernelsOptions& options, std::FILE* out) {
  const KernelTable* kernels = options.isa.empty() ? &BestKernels() : KernelsByName(options.isa);
  if (kernels == nullptr) {
    return InvalidArgument("--isa: this processor has no kernels named " + options.isa);
  }
  REM_ASSIGN_OR_RETURN(const Ceilings ceilings, MeasureCeilings(1, options.isa));
  std::vector<MeasuredKernel> rows;
  for (KernelCase& kernel : KernelCases()) {
    const std::string name = kernel.Name();
    if (name.find(options.filter) == std::string::npos) continue;
    std::fprintf(stderr, "\r\033[K%s", name.c_str());
    const std::function<void()> call = kernel.prepare(*kernels);
    if (call == nullptr) continue;
    MeasuredKernel measured;
    measured.seconds = Time(call);
    measured.kernel = std::move(kernel);
    SetCeiling(ceilings, &measured);
    rows.push_back(std::move(measured));
  }
  std::fprintf(stderr, "\r\033[K");
  const std::string isa(kernels->name);
  if (options.json) {
    PrintJson(rows, isa, ceilings, out);
  } else {
    PrintTable(rows, isa, ceilings, out);
  }
  return Status::Ok();
}

}  // namespace remontoir
