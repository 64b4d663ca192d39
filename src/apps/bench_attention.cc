// Measures and prints.
#include "apps/bench_attention.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench_attention_data.h"
#include "apps/bench_attention_long.h"
#include "apps/bench_attention_masked.h"
#include "apps/bench_attention_print.h"
#include "apps/bench_json.h"
#include "backend/backend.h"
#include "kernels/kernel_table.h"

namespace remontoir {
namespace {

constexpr int32_t kQuickRounds = 7;
constexpr int32_t kRounds = 21;
// Of contexts that are longer than what models were trained for.
constexpr double kRopeBaseScale = 4;
constexpr int32_t kExactTokens = 8192;

struct AttentionReport {
  std::string kernels;
  int32_t layer = 0;
  MaskedReport masked;
  SparseReport sparse;
};

void PrintTables(const AttentionReport& report, std::FILE* out) {
  const MaskedReport& masked = report.masked;
  std::fprintf(out,
               "%s kernels, one thread; layer %d, %d query heads on one KV head, %d rows sampled "
               "from a prefill of %d\n\n",
               report.kernels.c_str(), report.layer, masked.heads, masked.rows, masked.keys);
  std::fprintf(out, "%-6s %6s %12s %12s %10s  %s\n", "pages", "width", "GFLOP/s", "FMA peak",
               "fma_ratio", "lowest ... highest");
  for (const ExactSpeed& row : masked.exact) {
    std::fprintf(out, "%-6s %6d %12.1f %12.1f %10.3f  %.3f ... %.3f\n",
                 std::string(Info(row.type).name).c_str(), row.width, row.gflops, row.peak_gflops,
                 row.fma_ratio.median, row.fma_ratio.low, row.fma_ratio.high);
  }
  std::fprintf(out, "\n%-6s %6s %10s %10s %9s %10s  %-19s %9s %10s\n", "pages", "width",
               "key block", "row block", "density", "effective", "lowest ... highest", "of pairs",
               "effective");
  for (const MaskedSpeed& row : masked.masked) {
    std::fprintf(out, "%-6s %6d %10d %10d %9.3f %10.3f  %.3f ... %.3f     %9.3f %10.3f\n",
                 std::string(Info(row.type).name).c_str(), row.width, row.keys_per_block,
                 row.positions_per_block, row.density, row.effective.median, row.effective.low,
                 row.effective.high, row.pair_density, row.effective_of_pairs.median);
  }
}

// The figures that are judged: the worst of their rows.
void WriteFigures(JsonWriter& json, const MaskedReport& masked) {
  const MaskedSpeed& coarse = *masked.Worst(128, 128);
  WriteNumber(json, "fma_ratio", masked.fma_ratio());
  WriteNumber(json, "effective_compute_128", coarse.effective.median);
  WriteNumber(json, "effective_compute_64", masked.Worst(16, 64)->effective.median);
  WriteNumber(json, "effective_compute_row_groups", masked.WorstOfRowGroups()->effective.median);
  WriteNumber(json, "density", coarse.density);
}

void WriteMasked(JsonWriter& json, const MaskedReport& masked) {
  json.Key("exact").BeginArray();
  for (const ExactSpeed& row : masked.exact) {
    json.BeginObject();
    json.Key("type").String(Info(row.type).name);
    json.Key("width").Int(row.width);
    WriteNumber(json, "gflops", row.gflops);
    WriteNumber(json, "peak_gflops", row.peak_gflops);
    WriteSpread(json, "fma_ratio", row.fma_ratio);
    json.EndObject();
  }
  json.EndArray();
  json.Key("masked").BeginArray();
  for (const MaskedSpeed& row : masked.masked) {
    json.BeginObject();
    json.Key("type").String(Info(row.type).name);
    json.Key("width").Int(row.width);
    json.Key("keys_per_block").Int(row.keys_per_block);
    json.Key("positions_per_block").Int(row.positions_per_block);
    WriteNumber(json, "density", row.density);
    WriteSpread(json, "effective_compute", row.effective);
    WriteNumber(json, "pair_density", row.pair_density);
    WriteSpread(json, "effective_compute_of_pairs", row.effective_of_pairs);
    json.EndObject();
  }
  json.EndArray();
}

// The text's first tokens through the layers.
Result<std::vector<CapturedAttention>> Capture(const BenchAttentionOptions& options, int32_t tokens,
                                               std::vector<int32_t> layers) {
  std::fprintf(stderr, "reading %d tokens, layers 0 to %d\n", tokens,
               *std::max_element(layers.begin(), layers.end()));
  return CaptureLayers({.model_file = options.file,
                        .text_file = options.text_file,
                        .tokens = tokens,
                        .layers = std::move(layers),
                        .rope_base_scale = kRopeBaseScale,
                        .exact_tokens = kExactTokens});
}

void PrintJson(const AttentionReport& report, std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("instruction_set").String(report.kernels);
  json.Key("layer").Int(report.layer);
  json.Key("keys").Int(report.masked.keys);
  json.Key("rows").Int(report.masked.rows);
  json.Key("heads").Int(report.masked.heads);
  WriteFigures(json, report.masked);
  WriteMasked(json, report.masked);
  WriteSparse(json, report.sparse);
  json.EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace

Status BenchAttention(const BenchAttentionOptions& options, std::FILE* out) {
  AttentionReport report;
  REM_ASSIGN_OR_RETURN(const KernelTable* kernels, CpuKernels());
  report.kernels = kernels->name;
  const std::vector<int32_t> layers(std::begin(kSparseLayers),
                                    options.quick ? kSparseLayers + 1 : std::end(kSparseLayers));
  REM_ASSIGN_OR_RETURN(const std::vector<CapturedAttention> captured,
                       Capture(options, options.quick ? kQuickContext : kLongContext, layers));
  report.layer = captured[0].layer;
  std::fprintf(stderr, "exact and masked attention\n");
  REM_ASSIGN_OR_RETURN(
      report.masked, MeasureMasked(captured[0], *kernels, options.quick ? kQuickRounds : kRounds));
  if (options.quick) {
    REM_ASSIGN_OR_RETURN(report.sparse, MeasureSparseQuick(captured[0], *kernels));
  } else {
    REM_ASSIGN_OR_RETURN(report.sparse, MeasureSparse(captured, *kernels));
    REM_ASSIGN_OR_RETURN(const std::vector<CapturedAttention> longest,
                         Capture(options, kLongestContext, {kSparseLayers[0]}));
    REM_RETURN_IF_ERROR(AddLongest(longest[0], *kernels, &report.sparse));
  }
  if (options.json) {
    PrintJson(report, out);
  } else {
    PrintTables(report, out);
    PrintSparse(report.sparse, out);
  }
  return Status::Ok();
}

}  // namespace remontoir
