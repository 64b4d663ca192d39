// One list of numbers serves both tables and the JSON.
#include "simulation/report.h"

#include <cstdarg>
#include <cstdio>

#include "api/json_writer.h"

namespace remontoir {
namespace {

struct Column {
  const char* title;  // over the table
  const char* key;    // in JSON
  int digits;
  bool has_ratio;
  double (*number)(const RunMetrics& run);
};

constexpr Column kColumns[] = {
    {"requests", "requests", 0, false, [](const RunMetrics& r) { return r.requests; }},
    {"refused", "refused", 0, false, [](const RunMetrics& r) { return r.refused; }},
    {"TTFT mean", "ttft_ms_mean", 0, true, [](const RunMetrics& r) { return r.ttft_ms.mean; }},
    {"P50", "ttft_ms_p50", 0, true, [](const RunMetrics& r) { return r.ttft_ms.p50; }},
    {"P95", "ttft_ms_p95", 0, true, [](const RunMetrics& r) { return r.ttft_ms.p95; }},
    {"P99", "ttft_ms_p99", 0, true, [](const RunMetrics& r) { return r.ttft_ms.p99; }},
    {"std", "ttft_ms_std", 0, true, [](const RunMetrics& r) { return r.ttft_ms.std; }},
    {"ITL P50", "itl_ms_p50", 1, true, [](const RunMetrics& r) { return r.itl_ms.p50; }},
    {"P99", "itl_ms_p99", 1, true, [](const RunMetrics& r) { return r.itl_ms.p99; }},
    {"max", "itl_ms_max", 1, true, [](const RunMetrics& r) { return r.itl_ms.max; }},
    {"stall", "stall_ms", 0, true, [](const RunMetrics& r) { return r.stall_ms; }},
    {"util", "utilisation", 3, true, [](const RunMetrics& r) { return r.utilisation; }},
    {"busy", "busy", 3, true, [](const RunMetrics& r) { return r.busy; }},
    {"tok/s", "tokens_per_s", 1, true, [](const RunMetrics& r) { return r.tokens_per_s; }},
};

[[gnu::format(printf, 2, 3)]] void Append(std::string& text, const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += line;
}

std::string Fixed(double value, int digits) {
  std::string text;
  Append(text, "%.*f", digits, value);
  return text;
}

const PolicyRuns* FindImmediate(std::span<const PolicyRuns> policies) {
  for (const PolicyRuns& runs : policies) {
    if (runs.policy == SchedulingPolicy::kImmediate) return &runs;
  }
  return nullptr;
}

void AppendTitles(std::string& text, const char* first, bool ratios) {
  Append(text, "%-10s", first);
  for (const Column& column : kColumns) {
    if (!ratios || column.has_ratio) Append(text, " %9s", column.title);
  }
  text += '\n';
}

}  // namespace

std::string ReportTables(const ReportHeader& header, std::span<const PolicyRuns> policies) {
  std::string text;
  Append(text, "%s, ", header.stream.c_str());
  if (header.seeds > 1) Append(text, "mean of ");
  Append(text, "%s %llu", header.seeds > 1 ? "seeds" : "seed",
         static_cast<unsigned long long>(header.seed_first));
  if (header.seeds > 1) {
    Append(text, "-%llu",
           static_cast<unsigned long long>(header.seed_first) +
               static_cast<unsigned long long>(header.seeds) - 1);
  }
  Append(text, ", %d slots", header.machine.slots);
  if (header.clients.count > 0) {
    Append(text, ", %d clients that think %g s", header.clients.count, header.clients.think_s);
  }
  text += "; times in ms\n";
  AppendTitles(text, "policy", false);
  for (const PolicyRuns& runs : policies) {
    const RunMetrics mean = MeanOf(runs.runs);
    Append(text, "%-10s", std::string(Name(runs.policy)).c_str());
    for (const Column& column : kColumns) {
      Append(text, " %9s", Fixed(column.number(mean), column.digits).c_str());
    }
    text += '\n';
  }
  const PolicyRuns* const base = FindImmediate(policies);
  if (base == nullptr || policies.size() < 2) return text;
  text += '\n';
  AppendTitles(text, "/immediate", true);
  for (const PolicyRuns& runs : policies) {
    Append(text, "%-10s", std::string(Name(runs.policy)).c_str());
    for (const Column& column : kColumns) {
      if (column.has_ratio) Append(text, " %9.3f", MeanRatio(runs, *base, column.number));
    }
    text += '\n';
  }
  return text;
}

std::string ReportJson(const ReportHeader& header, std::span<const PolicyRuns> policies) {
  JsonWriter json;
  json.BeginObject().Key("stream").String(header.stream);
  json.Key("seed").Int(static_cast<int64_t>(header.seed_first)).Key("seeds").Int(header.seeds);
  json.Key("slots").Int(header.machine.slots);
  json.Key("clients").Int(header.clients.count);
  json.Key("think_s").Raw(Fixed(header.clients.think_s, 6));
  json.Key("omega").Raw(Fixed(header.scheduler.forecast_weight, 6));
  const CostModel& costs = header.machine.costs;
  json.Key("costs").BeginObject();
  json.Key("round_us").Raw(Fixed(costs.round_us, 6));
  json.Key("prefill_token_us").Raw(Fixed(costs.prefill_token_us, 6));
  json.Key("decode_row_us").Raw(Fixed(costs.decode_row_us, 6));
  json.Key("decode_key_us").Raw(Fixed(costs.decode_key_us, 6));
  json.Key("prefill_key_us").Raw(Fixed(costs.prefill_key_us, 6));
  json.EndObject();
  const PolicyRuns* const base = FindImmediate(policies);
  json.Key("policies").BeginArray();
  for (const PolicyRuns& runs : policies) {
    const RunMetrics mean = MeanOf(runs.runs);
    json.BeginObject().Key("policy").String(Name(runs.policy));
    for (const Column& column : kColumns) json.Key(column.key).Raw(Fixed(column.number(mean), 4));
    if (base != nullptr) {
      json.Key("to_immediate").BeginObject();
      for (const Column& column : kColumns) {
        if (!column.has_ratio) continue;
        json.Key(column.key).Raw(Fixed(MeanRatio(runs, *base, column.number), 4));
      }
      json.EndObject();
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

}  // namespace remontoir
