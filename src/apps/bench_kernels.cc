// Runs each case for some tens of milliseconds a try; the middle try counts.
#include "apps/bench_kernels.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "apps/bench_ceilings.h"
#include "apps/bench_engine.h"
#include "apps/bench_json.h"
#include "apps/bench_kernel_cases.h"
#include "apps/bench_statistics.h"

namespace remontoir {
namespace {

constexpr int kTries = 5;
constexpr double kTrySeconds = 0.03;
constexpr double kGiga = 1e9;

// Every set of kernels that there may be, whether this processor runs it or not.
constexpr std::string_view kInstructionSets[] = {"scalar", "avx2", "avxvnni", "avx512"};

struct MeasuredKernel {
  KernelCase kernel;
  Spread seconds;  // of one call
  double ceiling_seconds = 0;
  double of_dense = 0;  // grouped products: their rate by the dense one's; 0: no such thing

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

// Beside the dense product of the same type and shape.
void CompareWithDense(std::vector<MeasuredKernel>* rows) {
  for (MeasuredKernel& row : *rows) {
    if (row.kernel.operation != kGroupedProduct) continue;
    for (const MeasuredKernel& dense : *rows) {
      if (dense.kernel.operation != kDenseProduct || dense.kernel.type != row.kernel.type ||
          dense.kernel.shape != row.kernel.shape) {
        continue;
      }
      row.of_dense = dense.seconds.median / row.seconds.median;
    }
  }
}

// What was measured of one instruction set.
struct MeasuredSet {
  std::string name;
  bool runs = false;  // on this processor
  Ceilings ceilings;
  std::vector<MeasuredKernel> rows;
};

Status MeasureSet(const KernelTable& kernels, const std::string& filter, MeasuredSet* set) {
  REM_ASSIGN_OR_RETURN(CeilingMeter meter, CeilingMeter::Open(1, set->name));
  for (KernelCase& kernel : KernelCases()) {
    const std::string name = kernel.Name();
    if (name.find(filter) == std::string::npos) continue;
    std::fprintf(stderr, "\r\033[K%s %s", set->name.c_str(), name.c_str());
    const std::function<void()> call = kernel.prepare(kernels);
    if (call == nullptr) continue;
    MeasuredKernel measured;
    measured.seconds = Time(call);
    measured.kernel = std::move(kernel);
    set->rows.push_back(std::move(measured));
  }
  std::fprintf(stderr, "\r\033[K");
  set->ceilings = meter.Measure();
  for (MeasuredKernel& row : set->rows) SetCeiling(set->ceilings, &row);
  CompareWithDense(&set->rows);
  return Status::Ok();
}

void PrintTable(const MeasuredSet& set, std::FILE* out) {
  if (!set.runs) {
    std::fprintf(out, "%s kernels: unrun, this processor has none\n", set.name.c_str());
    return;
  }
  std::fprintf(out, "%s kernels, one thread\n%s\n\n", set.name.c_str(),
               CeilingsLine(set.ceilings).c_str());
  std::fprintf(out, "%-17s %-7s %-22s %11s %12s %12s %7s %7s\n", "operation", "type", "shape",
               "microsecs", "rate", "ceiling", "ratio", "/dense");
  for (const MeasuredKernel& row : set.rows) {
    std::fprintf(out, "%-17s %-7s %-22s %11.2f %6.1f %-5s %6.1f %-5s %6.3f",
                 row.kernel.operation.c_str(), row.kernel.type.c_str(), row.kernel.shape.c_str(),
                 row.seconds.median * 1e6, row.rate(), row.unit(), row.ceiling_rate(), row.unit(),
                 row.ratio());
    if (row.of_dense > 0) std::fprintf(out, " %7.3f", row.of_dense);
    std::fprintf(out, "\n");
  }
  std::fprintf(out, "\n");
}

void WriteRow(JsonWriter& json, const MeasuredKernel& row) {
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
  if (row.of_dense > 0) WriteNumber(json, "ratio_to_dense", row.of_dense);
  json.EndObject();
}

void PrintJson(const std::vector<MeasuredSet>& sets, std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("instruction_sets").BeginArray();
  for (const MeasuredSet& set : sets) {
    json.BeginObject();
    json.Key("name").String(set.name);
    json.Key("state").String(set.runs ? "run" : "unrun");
    if (set.runs) {
      json.Key("ceilings").Raw(CeilingsJson(set.ceilings));
      json.Key("rows").BeginArray();
      for (const MeasuredKernel& row : set.rows) WriteRow(json, row);
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace

Status BenchKernels(const BenchKernelsOptions& options, std::FILE* out) {
  const bool all = options.isa == "all";
  const std::string wanted =
      options.isa.empty() ? std::string(BestKernels().name) : std::string(options.isa);
  if (!all && KernelsByName(wanted) == nullptr) {
    return InvalidArgument("--isa: this processor has no kernels named " + wanted);
  }
  std::vector<MeasuredSet> sets;
  for (const std::string_view name : kInstructionSets) {
    const KernelTable* kernels = KernelsByName(name);
    // The scalar twins are there to be right: timing them all takes very long.
    if (kernels != nullptr && name != wanted && !(all && name != "scalar")) continue;
    MeasuredSet& set = sets.emplace_back();
    set.name = name;
    set.runs = kernels != nullptr;
    if (set.runs) REM_RETURN_IF_ERROR(MeasureSet(*kernels, options.filter, &set));
  }
  if (options.json) {
    PrintJson(sets, out);
  } else {
    for (const MeasuredSet& set : sets) PrintTable(set, out);
  }
  return Status::Ok();
}

}  // namespace remontoir
