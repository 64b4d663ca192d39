// Rounds over rows, then a table or one JSON object.
#include "apps/bench_engine.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "apps/bench_json.h"
#include "apps/bench_statistics.h"
#include "apps/bench_steps.h"

namespace remontoir {
namespace {

constexpr double kGiga = 1e9;

struct MeasuredRow {
  BenchRow row;
  std::vector<double> tokens_per_second;
  std::vector<double> seconds;
  BenchWork work;      // of one measurement
  ExpertWork experts;  // likewise
  int64_t steps = 0;
  std::vector<double> ceiling_seconds;  // of each measurement, by what memory gave around it
  double round_over_single = 0;  // kBatch: its round beside that of one sequence; 0: not known

  double ratio() const {
    std::vector<double> ratios;
    for (size_t i = 0; i < seconds.size(); ++i) ratios.push_back(ceiling_seconds[i] / seconds[i]);
    return SpreadOf(ratios).median;
  }
  double round_seconds() const { return SpreadOf(seconds).median / static_cast<double>(steps); }
  bool by_reading = false;  // reading takes longer than arithmetic would
  double amount() const { return (by_reading ? work.bytes() : work.ops()) / kGiga; }
  double rate() const { return amount() / SpreadOf(seconds).median; }
  double ceiling_rate() const { return amount() / SpreadOf(ceiling_seconds).median; }
  const char* unit() const { return by_reading ? "GB/s" : "GOP/s"; }
};

Status MeasureRound(BenchRunner& runner, CeilingMeter& meter, const std::string& progress,
                    std::vector<MeasuredRow>* rows) {
  for (MeasuredRow& measured : *rows) {
    const Ceilings before = meter.Now();
    std::fprintf(stderr, "\r\033[K%s %s", progress.c_str(), measured.row.Name().c_str());
    REM_ASSIGN_OR_RETURN(const BenchSample sample, runner.Measure(measured.row));
    measured.tokens_per_second.push_back(sample.tokens_per_second());
    measured.seconds.push_back(sample.seconds);
    measured.work = sample.work;
    measured.experts = sample.experts;
    measured.ceiling_seconds.push_back(CeilingSeconds(sample.work, Between(before, meter.Now())));
    measured.steps = static_cast<int64_t>(sample.step_seconds.size());
  }
  return Status::Ok();
}

void SetUnit(const Ceilings& ceilings, MeasuredRow* measured) {
  const BenchWork& work = measured->work;
  measured->by_reading = work.bytes() / ceilings.read_bytes_per_second >
                         work.int8_ops / ceilings.int8_ops_per_second +
                             (work.f32_ops + work.attention_ops) / ceilings.f32_ops_per_second;
}

// Beside a batch of one, or single steps at the depth of the batches.
void CompareWithSingle(int32_t batch_depth, std::vector<MeasuredRow>* rows) {
  double single = 0;
  for (const MeasuredRow& measured : *rows) {
    const BenchRow& row = measured.row;
    if (row.kind == BenchRow::Kind::kPrompt || row.sequences > 1) continue;
    if (row.tokens == batch_depth) single = measured.round_seconds();
  }
  for (MeasuredRow& measured : *rows) {
    if (measured.row.kind == BenchRow::Kind::kBatch && single > 0) {
      measured.round_over_single = measured.round_seconds() / single;
    }
  }
}

void PrintTable(const std::vector<MeasuredRow>& rows, const Ceilings& ceilings,
                const BenchEngineOptions& options, const std::string& backend, std::FILE* out) {
  std::fprintf(out, "%s on %s, %d rounds\n", options.file.c_str(), backend.c_str(), options.rounds);
  std::fprintf(out, "%s\n\n", CeilingsLine(ceilings).c_str());
  std::fprintf(out, "%-14s %10s %21s %12s %12s %7s %8s\n", "row", "tok/s", "lowest ... highest",
               "rate", "ceiling", "ratio", "/single");
  for (const MeasuredRow& row : rows) {
    const Spread speed = SpreadOf(row.tokens_per_second);
    std::fprintf(out, "%-14s %10.1f %10.1f %10.1f %6.1f %-5s %6.1f %-5s %6.3f",
                 row.row.Name().c_str(), speed.median, speed.low, speed.high, row.rate(),
                 row.unit(), row.ceiling_rate(), row.unit(), row.ratio());
    if (row.round_over_single > 0) std::fprintf(out, " %8.2f", row.round_over_single);
    if (row.experts.layers > 0) {
      std::fprintf(out, "   expert_rows_useful_share %.3f, experts read %.3f",
                   row.experts.rows_useful_share(), row.experts.mean_read_share());
    }
    std::fprintf(out, "\n");
  }
}

void PrintJson(const std::vector<MeasuredRow>& rows, const Ceilings& ceilings,
               const BenchEngineOptions& options, const std::string& backend, std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("file").String(options.file);
  json.Key("backend").String(backend);
  json.Key("rounds").Int(options.rounds);
  json.Key("ceilings").Raw(CeilingsJson(ceilings));
  json.Key("rows").BeginArray();
  for (const MeasuredRow& row : rows) {
    const Spread speed = SpreadOf(row.tokens_per_second);
    json.BeginObject();
    json.Key("row").String(row.row.Name());
    json.Key("tokens_per_second").BeginObject();
    WriteNumber(json, "median", speed.median);
    WriteNumber(json, "low", speed.low);
    WriteNumber(json, "high", speed.high);
    json.EndObject();
    json.Key("unit").String(row.unit());
    WriteNumber(json, "rate", row.rate());
    WriteNumber(json, "ceiling", row.ceiling_rate());
    WriteNumber(json, "ratio", row.ratio());
    WriteNumber(json, "milliseconds_a_round", row.round_seconds() * 1e3);
    if (row.round_over_single > 0) WriteNumber(json, "round_over_single", row.round_over_single);
    if (row.experts.layers > 0) {
      WriteNumber(json, "expert_rows_useful_share", row.experts.rows_useful_share());
      WriteNumber(json, "expert_matrices_read_share", row.experts.mean_read_share());
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace

std::vector<BenchRow> RowsOf(const BenchEngineOptions& options) {
  std::vector<BenchRow> rows;
  for (const int32_t prompt : options.prompts) {
    rows.push_back({BenchRow::Kind::kPrompt, prompt, 1, 0});
  }
  for (const int32_t depth : options.depths) {
    rows.push_back({BenchRow::Kind::kDecode, depth, 1, options.steps});
  }
  for (const int32_t batch : options.batches) {
    rows.push_back({BenchRow::Kind::kBatch, options.batch_depth, batch, options.steps});
  }
  return rows;
}

std::string CeilingsJson(const Ceilings& ceilings) {
  JsonWriter json;
  json.BeginObject();
  json.Key("instruction_set").String(ceilings.instruction_set);
  json.Key("threads").Int(ceilings.threads);
  WriteNumber(json, "read_gb_s", ceilings.read_bytes_per_second / kGiga);
  WriteNumber(json, "cached_read_gb_s", ceilings.cached_bytes_per_second / kGiga);
  WriteNumber(json, "int8_gop_s", ceilings.int8_ops_per_second / kGiga);
  WriteNumber(json, "f32_gflop_s", ceilings.f32_ops_per_second / kGiga);
  json.EndObject();
  return json.Take();
}

std::string CeilingsLine(const Ceilings& ceilings) {
  char line[256];
  std::snprintf(line, sizeof line,
                "ceilings with %d threads (%s): read %.1f GB/s, from cache %.0f GB/s, int8 %.0f "
                "GOP/s, f32 %.0f GFLOP/s",
                ceilings.threads, ceilings.instruction_set.c_str(),
                ceilings.read_bytes_per_second / kGiga, ceilings.cached_bytes_per_second / kGiga,
                ceilings.int8_ops_per_second / kGiga, ceilings.f32_ops_per_second / kGiga);
  return line;
}

Status BenchEngine(const BenchEngineOptions& options, std::FILE* out) {
  LoadEngineOptions load;
  load.backend.threads =
      options.threads > 0 ? options.threads
                          : std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  load.backend.compute = options.float32 ? ComputeMode::kF32 : ComputeMode::kAuto;
  load.backend.experts_mapped = options.experts_mapped;
  const std::vector<BenchRow> rows = RowsOf(options);
  REM_ASSIGN_OR_RETURN(CeilingMeter meter, CeilingMeter::Open(load.backend.threads, ""));
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<BenchRunner> runner,
                       BenchRunner::Open(options.file, load, rows));
  if (options.worker) return ServeBenchRows(*runner, meter, out);
  if (options.steps_profile) return BenchSteps(*runner, rows, meter, options, out);

  std::vector<MeasuredRow> measured;
  for (const BenchRow& row : rows) measured.emplace_back().row = row;
  for (int32_t round = 1; round <= options.rounds; ++round) {
    const std::string progress =
        "round " + std::to_string(round) + "/" + std::to_string(options.rounds);
    REM_RETURN_IF_ERROR(MeasureRound(*runner, meter, progress, &measured));
    meter.Measure();
  }
  const Ceilings& ceilings = meter.best();
  for (MeasuredRow& row : measured) SetUnit(ceilings, &row);
  CompareWithSingle(options.batch_depth, &measured);
  std::fprintf(stderr, "\r\033[K");
  const std::string backend = runner->backend().Describe();
  if (options.json) {
    PrintJson(measured, ceilings, options, backend, out);
  } else {
    PrintTable(measured, ceilings, options, backend, out);
  }
  return Status::Ok();
}

}  // namespace remontoir
