// Sums the seconds of steps by kind and sets products beside the kernels' own rate.
#include "apps/bench_steps.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "apps/bench_engine.h"
#include "apps/bench_json.h"
#include "apps/bench_micro_kernels.h"
#include "apps/bench_statistics.h"

namespace remontoir {
namespace {

constexpr double kGiga = 1e9;
constexpr const char* kKindNames[] = {"rows", "products", "expert products", "logits", "attention"};

struct ProfiledKind {
  std::vector<double> seconds;  // of each measurement
  ProductWork products;
  double micro_kernel_seconds = 0;  // of the same products at the kernels' own rate
  BenchWork work;                   // what had to be done at least
  double ceiling_seconds = 0;       // of that; 0: none is known

  double median() const { return SpreadOf(seconds).median; }
};

struct ProfiledRow {
  BenchRow row;
  int64_t rounds = 0;  // of one measurement
  std::array<ProfiledKind, kStepKindCount> kinds;
  std::vector<double> seconds;  // of whole measurements
  std::vector<double> between;  // not in any step
};

RowCounts CountRows(const BenchSample& sample, const ModelShape& shape) {
  RowCounts counts;
  counts.rounds = static_cast<double>(sample.step_seconds.size());
  const auto tokens = static_cast<double>(sample.tokens);
  counts.rows[static_cast<size_t>(RowSpace::kTokens)] = tokens;
  counts.rows[static_cast<size_t>(RowSpace::kExperts)] = tokens * shape.experts_used;
  counts.rows[static_cast<size_t>(RowSpace::kLogits)] = static_cast<double>(sample.logit_rows);
  if (shape.experts > 0) {
    counts.expert_share =
        std::min(1.0, tokens / counts.rounds * shape.experts_used / shape.experts);
  }
  return counts;
}

class StepProfiler {
 public:
  StepProfiler(BenchRunner& runner, int threads)
      : runner_(runner),
        steps_(runner.backend().DescribeSteps()),
        step_seconds_(steps_.size()),
        rates_(runner.backend(), threads) {
    for (const StepDescription& step : steps_) {
      for (const StepDescription::Product& product : step.products) rates_.Want(product.format);
    }
  }

  void MeasureRates() { rates_.Measure(); }

  Status Measure(ProfiledRow* profiled) {
    std::fill(step_seconds_.begin(), step_seconds_.end(), 0.0);
    runner_.backend().TimeSteps(step_seconds_);
    const Result<BenchSample> sample = runner_.Measure(profiled->row);
    runner_.backend().TimeSteps({});
    if (!sample.ok()) return sample.status();
    const RowCounts counts = CountRows(*sample, runner_.shape());
    profiled->rounds = static_cast<int64_t>(sample->step_seconds.size());
    profiled->seconds.push_back(sample->seconds);
    profiled->between.push_back(sample->seconds -
                                std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0));
    for (int k = 0; k < kStepKindCount; ++k) {
      const auto kind = static_cast<StepKind>(k);
      ProfiledKind& part = profiled->kinds[static_cast<size_t>(k)];
      part.seconds.push_back(SecondsOf(kind));
      part.products = WorkOfKind(steps_, kind, counts);
      part.work = part.products.work;
      if (kind == StepKind::kAttention) {
        part.work.attention_ops = sample->work.attention_ops;
        part.work.kv_bytes = sample->work.kv_bytes;
      }
    }
    return Status::Ok();
  }

  // After the last measurement: rates and ceilings are the best of all rounds by then.
  void Finish(const Ceilings& ceilings, ProfiledRow* profiled) const {
    for (ProfiledKind& part : profiled->kinds) {
      part.ceiling_seconds = CeilingSeconds(part.work, ceilings);
      part.micro_kernel_seconds = rates_.Seconds(part.products.ops_by_format);
    }
  }

  const MicroKernelRates& rates() const { return rates_; }

 private:
  double SecondsOf(StepKind kind) const {
    double seconds = 0;
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].kind == kind) seconds += step_seconds_[s];
    }
    return seconds;
  }

  BenchRunner& runner_;
  const std::vector<StepDescription> steps_;
  std::vector<double> step_seconds_;
  MicroKernelRates rates_;
};

// --- What is printed: one line a kind ---

struct KindLine {
  std::string row;
  std::string kind;
  double milliseconds = 0;  // a round
  double share = 0;         // of the row's time
  double gop_s = 0;         // 0: not a product
  double of_micro_kernel = 0;
  double of_ceiling = 0;  // 0: no ceiling
};

std::vector<KindLine> LinesOf(const ProfiledRow& profiled) {
  std::vector<KindLine> lines;
  const double whole = SpreadOf(profiled.seconds).median;
  const auto rounds = static_cast<double>(profiled.rounds);
  for (int k = 0; k < kStepKindCount; ++k) {
    const ProfiledKind& part = profiled.kinds[static_cast<size_t>(k)];
    const double seconds = part.median();
    if (seconds == 0) continue;
    KindLine line = {profiled.row.Name(), kKindNames[k], seconds / rounds * 1e3, seconds / whole};
    line.gop_s = part.products.ops() / seconds / kGiga;
    line.of_micro_kernel = part.micro_kernel_seconds / seconds;
    line.of_ceiling = part.ceiling_seconds / seconds;
    lines.push_back(line);
  }
  const double between = SpreadOf(profiled.between).median;
  lines.push_back({profiled.row.Name(), "between", between / rounds * 1e3, between / whole});
  return lines;
}

// A dash where the figure means nothing.
std::string Spell(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return value == 0 ? "-" : text;
}

void PrintTable(const std::vector<KindLine>& lines, const MicroKernelRates& rates,
                const std::string& heading, std::FILE* out) {
  std::fprintf(out, "%s\nmicro-kernels' own rate:", heading.c_str());
  for (const MicroKernelRate& rate : rates.rates()) {
    std::fprintf(out, " %s %.0f GOP/s", rate.type.c_str(), rate.ops_per_second / kGiga);
  }
  std::fprintf(out, "\n\n%-14s %-16s %10s %7s %9s %14s %9s\n", "row", "steps", "ms a round",
               "share", "GOP/s", "/micro-kernel", "/ceiling");
  for (const KindLine& line : lines) {
    std::fprintf(out, "%-14s %-16s %10.3f %6.1f%% %9s %14s %9s\n", line.row.c_str(),
                 line.kind.c_str(), line.milliseconds, 100 * line.share,
                 Spell("%.1f", line.gop_s).c_str(), Spell("%.3f", line.of_micro_kernel).c_str(),
                 Spell("%.3f", line.of_ceiling).c_str());
  }
}

void PrintJson(const std::vector<KindLine>& lines, const MicroKernelRates& rates,
               const Ceilings& ceilings, const std::string& file, const std::string& backend,
               std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("file").String(file);
  json.Key("backend").String(backend);
  json.Key("ceilings").Raw(CeilingsJson(ceilings));
  json.Key("micro_kernels").BeginObject();
  for (const MicroKernelRate& rate : rates.rates()) {
    WriteNumber(json, rate.type.c_str(), rate.ops_per_second / kGiga);
  }
  json.EndObject();
  json.Key("steps").BeginArray();
  for (const KindLine& line : lines) {
    json.BeginObject();
    json.Key("row").String(line.row);
    json.Key("steps").String(line.kind);
    WriteNumber(json, "milliseconds_a_round", line.milliseconds);
    WriteNumber(json, "share", line.share);
    if (line.gop_s > 0) {
      WriteNumber(json, "gop_s", line.gop_s);
      WriteNumber(json, "of_micro_kernel", line.of_micro_kernel);
    }
    if (line.of_ceiling > 0) WriteNumber(json, "of_ceiling", line.of_ceiling);
    json.EndObject();
  }
  json.EndArray().EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace

double ProductWork::ops() const {
  return std::accumulate(ops_by_format.begin(), ops_by_format.end(), 0.0);
}

ProductWork WorkOfKind(std::span<const StepDescription> steps, StepKind kind,
                       const RowCounts& counts) {
  ProductWork sum;
  for (const StepDescription& step : steps) {
    if (step.kind != kind) continue;
    const double rows = counts.rows[static_cast<size_t>(step.rows)];
    for (const StepDescription::Product& product : step.products) {
      const double ops = 2.0 * rows * static_cast<double>(product.out_width * product.in_width);
      sum.ops_by_format[static_cast<size_t>(product.format)] += ops * product.passes;
      (IsFloatFormat(product.format) ? sum.work.f32_ops : sum.work.int8_ops) += ops;
      // Rounds that want no logits don't read the output matrix.
      const double reads = kind == StepKind::kLogits           ? std::min(counts.rounds, rows)
                           : kind == StepKind::kExpertProducts ? counts.rounds * counts.expert_share
                                                               : counts.rounds;
      sum.work.weight_bytes += reads * static_cast<double>(product.bytes);
    }
  }
  return sum;
}

Status BenchSteps(BenchRunner& runner, const std::vector<BenchRow>& rows, CeilingMeter& meter,
                  const BenchEngineOptions& options, std::FILE* out) {
  const Ceilings& ceilings = meter.best();
  StepProfiler profiler(runner, ceilings.threads);
  std::vector<ProfiledRow> profiled;
  for (const BenchRow& row : rows) profiled.emplace_back().row = row;
  for (int32_t round = 1; round <= options.rounds; ++round) {
    profiler.MeasureRates();
    for (ProfiledRow& row : profiled) {
      std::fprintf(stderr, "\r\033[Kround %d/%d %s", round, options.rounds, row.row.Name().c_str());
      REM_RETURN_IF_ERROR(profiler.Measure(&row));
    }
    meter.Measure();
  }
  std::fprintf(stderr, "\r\033[K");
  std::vector<KindLine> lines;
  for (ProfiledRow& row : profiled) {
    profiler.Finish(ceilings, &row);
    for (KindLine& line : LinesOf(row)) lines.push_back(std::move(line));
  }
  const std::string backend = runner.backend().Describe();
  if (options.json) {
    PrintJson(lines, profiler.rates(), ceilings, options.file, backend, out);
  } else {
    const std::string heading = options.file + " on " + backend + ", " +
                                std::to_string(options.rounds) + " rounds\n" +
                                CeilingsLine(ceilings);
    PrintTable(lines, profiler.rates(), heading, out);
  }
  return Status::Ok();
}

}  // namespace remontoir
