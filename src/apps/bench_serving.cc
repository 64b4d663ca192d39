// Plans, warms up, sends, and prints the report.
#include "apps/bench_serving.h"

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench_json.h"
#include "base/clock.h"
#include "base/mapped_file.h"
#include "loadgen/load_client.h"
#include "loadgen/load_report.h"

namespace remontoir {
namespace {

constexpr int32_t kPulseOutputTokens = 16;
// Of a closed loop that seconds end, not a count.
constexpr int64_t kRequestsWithoutCount = 100'000;
// The warm-up's words differ from those of the load.
constexpr uint64_t kWarmUpSeed = 0x9e3779b97f4a7c15;

bool IsClosed(const BenchServingOptions& options) {
  return options.clients > 0 || options.pulse > 0;
}

LoadShape ShapeOf(const BenchServingOptions& options) {
  if (options.pulse == 0) return options.shape;
  LoadShape shape;
  shape.short_prompt = {1, 1};
  shape.output = {kPulseOutputTokens, kPulseOutputTokens};
  shape.long_share = 0;
  return shape;
}

Status CheckOptions(const BenchServingOptions& options) {
  const bool is_trace = !options.trace.empty();
  const bool is_open = !is_trace && options.rate > 0;
  if (is_trace + is_open + (options.clients > 0) + (options.pulse > 0) != 1) {
    return InvalidArgument("wants one load: --rate with --seconds, --clients, --pulse or --trace");
  }
  if (is_open && (options.seconds <= 0 || options.requests > 0)) {
    return InvalidArgument("--rate wants --seconds, which also say how many requests there are");
  }
  if (IsClosed(options) && options.requests == 0 && options.seconds <= 0) {
    return InvalidArgument("a closed loop wants --requests or --seconds");
  }
  if (!IsClosed(options) && options.think_s > 0) {
    return InvalidArgument("--think-s belongs to --clients or --pulse");
  }
  return Status::Ok();
}

Result<LoadPlan> PlanOf(const BenchServingOptions& options) {
  const LoadShape shape = ShapeOf(options);
  if (!options.trace.empty()) {
    REM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(options.trace));
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    const TraceOptions trace{options.rate, options.seconds, options.requests, options.long_from};
    Result<LoadPlan> plan = ReadTraceLoad(text, trace);
    if (!plan.ok()) return plan.status().WithContext(options.trace);
    return plan;
  }
  if (!IsClosed(options)) return DrawOpenLoad(shape, options.rate, options.seconds, options.seed);
  const int64_t requests = options.requests > 0 ? options.requests : kRequestsWithoutCount;
  return DrawClosedLoad(shape, requests, options.seed);
}

Result<LoadClientOptions> ClientOf(const BenchServingOptions& options) {
  LoadClientOptions client;
  REM_ASSIGN_OR_RETURN(client.target, ParseLoadTarget(options.url));
  client.endpoint = options.completions ? LoadEndpoint::kCompletions : LoadEndpoint::kChat;
  client.model = options.model;
  for (const std::string& header : options.headers) {
    const size_t colon = header.find(": ");
    if (colon == std::string::npos) return InvalidArgument("--header wants NAME: VALUE");
    client.headers.Add(header.substr(0, colon), header.substr(colon + 2));
  }
  client.seed = options.seed;
  client.connections_max = options.connections_max;
  client.reply_ms_max = static_cast<int64_t>(options.reply_seconds_max * 1e3);
  client.prompt_tokens_extra = options.template_tokens;
  return client;
}

// One request after the other, of the load's own lengths.
Status WarmUp(const BenchServingOptions& options, LoadClientOptions client, const Clock& clock) {
  if (options.warm_up == 0) return Status::Ok();
  client.seed ^= kWarmUpSeed;
  REM_ASSIGN_OR_RETURN(const LoadPlan plan,
                       DrawClosedLoad(ShapeOf(options), options.warm_up, client.seed));
  REM_ASSIGN_OR_RETURN(const std::vector<LoadRecord> records,
                       RunClosedLoad(client, ClosedLoop(), plan, clock));
  for (const LoadRecord& record : records) {
    if (record.outcome == LoadOutcome::kAnswered) continue;
    // A deadline may well refuse; anything else means that there is nothing to measure.
    if (record.outcome == LoadOutcome::kRefused) continue;
    return IoError(options.url + ": warming up: " + std::string(LoadOutcomeName(record.outcome)) +
                   (record.status != 0 ? " (" + std::to_string(record.status) + ")" : "") + ": " +
                   record.error);
  }
  return Status::Ok();
}

void WriteDistribution(JsonWriter& json, const char* key, const Distribution& values) {
  if (values.count == 0) return;
  json.Key(key).BeginObject();
  json.Key("count").Int(values.count);
  WriteNumber(json, "mean", values.mean);
  WriteNumber(json, "p50", values.p50);
  WriteNumber(json, "p95", values.p95);
  WriteNumber(json, "p99", values.p99);
  WriteNumber(json, "std", values.std);
  WriteNumber(json, "max", values.max);
  json.EndObject();
}

struct NamedDistribution {
  const char* key;
  const char* title;
  Distribution LoadReport::*values;
};

constexpr NamedDistribution kDistributions[] = {
    {"ttft_ms", "first token, ms", &LoadReport::ttft_ms},
    {"short_ttft_ms", "  short prompts", &LoadReport::short_ttft_ms},
    {"long_ttft_ms", "  long prompts", &LoadReport::long_ttft_ms},
    {"itl_ms", "between tokens, ms", &LoadReport::itl_ms},
    {"total_ms", "whole answer, ms", &LoadReport::total_ms},
    {"refusal_ms", "refusal, ms", &LoadReport::refusal_ms},
    {"queue_ms", "X-Queue-Ms", &LoadReport::queue_ms},
    {"batch_size", "X-Batch-Size", &LoadReport::batch_size},
    {"batch_window_ms", "X-Batch-Window-Ms", &LoadReport::batch_window_ms},
    {"ttft_error_ms", "forecast's error, ms", &LoadReport::ttft_error_ms},
};

std::string JsonOf(const LoadReport& report) {
  JsonWriter json;
  json.BeginObject();
  json.Key("requests").Int(report.requests);
  json.Key("long_requests").Int(report.long_requests);
  json.Key("answered").Int(report.answered);
  json.Key("refused").Int(report.refused);
  json.Key("failed").Int(report.failed);
  json.Key("not_answered").BeginObject();
  for (const auto& [kind, count] : report.not_answered) json.Key(kind).Int(count);
  json.EndObject();
  json.Key("first_error").StringOrNull(report.first_error);
  WriteNumber(json, "seconds", report.seconds);
  WriteNumber(json, "answered_per_s", report.answered_per_s);
  WriteNumber(json, "output_tokens_per_s", report.output_tokens_per_s);
  WriteNumber(json, "prompt_tokens_per_s", report.prompt_tokens_per_s);
  json.Key("output_tokens").Int(report.output_tokens);
  json.Key("prompt_tokens").Int(report.prompt_tokens);
  json.Key("late_sends").Int(report.late_sends);
  WriteNumber(json, "latest_send_ms", report.latest_send_ms);
  for (const NamedDistribution& row : kDistributions) {
    WriteDistribution(json, row.key, report.*row.values);
  }
  json.EndObject();
  return json.Take();
}

void PrintReport(const LoadReport& report, std::FILE* out) {
  std::fprintf(out,
               "%" PRId64 " requests (%" PRId64 " long) in %.1f s: %" PRId64 " answered, %" PRId64
               " refused, %" PRId64 " failed\n",
               report.requests, report.long_requests, report.seconds, report.answered,
               report.refused, report.failed);
  for (const auto& [kind, count] : report.not_answered) {
    std::fprintf(out, "  %s: %" PRId64 "\n", kind.c_str(), count);
  }
  if (!report.first_error.empty()) {
    std::fprintf(out, "  the first failure: %s\n", report.first_error.c_str());
  }
  std::fprintf(out, "%.2f answers/s, %.1f tok/s out, %.1f tok/s in\n", report.answered_per_s,
               report.output_tokens_per_s, report.prompt_tokens_per_s);
  std::fprintf(out, "sent over %d ms late: %" PRId64 " (at most %.1f ms)\n\n",
               static_cast<int>(kLateUs / 1000), report.late_sends, report.latest_send_ms);
  std::fprintf(out, "| %-20s | %6s | %9s | %9s | %9s | %9s | %9s | %9s |\n", "", "count", "mean",
               "P50", "P95", "P99", "std", "max");
  std::fprintf(out, "| --- | --: | --: | --: | --: | --: | --: | --: |\n");
  for (const NamedDistribution& row : kDistributions) {
    const Distribution& values = report.*row.values;
    if (values.count == 0) continue;
    std::fprintf(out, "| %-20s | %6" PRId64 " | %9.1f | %9.1f | %9.1f | %9.1f | %9.1f | %9.1f |\n",
                 row.title, values.count, values.mean, values.p50, values.p95, values.p99,
                 values.std, values.max);
  }
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Status WriteRecords(const std::string& path, const std::vector<LoadRecord>& records) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "w"));
  if (file == nullptr) return IoError(path + ": can't be written");
  std::fputs(
      "intended_us,started_us,sent_us,first_byte_us,first_token_us,ended_us,outcome,status,is_long,"
      "prompt_tokens,output_tokens,pieces,longest_gap_us,ttft_predicted_ms,retry_after_ms\n",
      file.get());
  for (const LoadRecord& record : records) {
    const std::vector<int64_t>& pieces = record.pieces_us;
    int64_t longest_us = 0;
    for (size_t i = 1; i < pieces.size(); ++i) {
      longest_us = std::max(longest_us, pieces[i] - pieces[i - 1]);
    }
    std::fprintf(file.get(),
                 "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                 ",%s,%d,%d,%" PRId64 ",%" PRId64 ",%zu,%" PRId64 ",%g,%g\n",
                 record.intended_us, record.started_us, record.sent_us, record.first_byte_us,
                 pieces.empty() ? -1 : pieces.front(), record.ended_us,
                 std::string(LoadOutcomeName(record.outcome)).c_str(), record.status,
                 record.planned.is_long ? 1 : 0, record.prompt_tokens, record.output_tokens,
                 pieces.size(), longest_us, record.ttft_predicted_ms.value_or(-1),
                 record.retry_after_ms.value_or(-1));
  }
  return std::ferror(file.get()) == 0 ? Status::Ok() : IoError(path + ": writing failed");
}

}  // namespace

Status BenchServing(const BenchServingOptions& options, std::FILE* out) {
  REM_RETURN_IF_ERROR(CheckOptions(options));
  REM_ASSIGN_OR_RETURN(const LoadPlan plan, PlanOf(options));
  REM_ASSIGN_OR_RETURN(const LoadClientOptions client, ClientOf(options));
  const SystemClock clock;
  REM_RETURN_IF_ERROR(WarmUp(options, client, clock));
  const ClosedLoop loop{options.clients + options.pulse, options.think_s, options.seconds};
  REM_ASSIGN_OR_RETURN(const std::vector<LoadRecord> records,
                       IsClosed(options) ? RunClosedLoad(client, loop, plan, clock)
                                         : RunOpenLoad(client, plan, clock));
  const LoadReport report = ReportOf(records);
  if (options.json) {
    std::fprintf(out, "%s\n", JsonOf(report).c_str());
  } else {
    PrintReport(report, out);
  }
  if (options.records.empty()) return Status::Ok();
  return WriteRecords(options.records, records);
}

}  // namespace remontoir
