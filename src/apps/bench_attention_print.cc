// Rows of tables, members of objects.
#include "apps/bench_attention_print.h"

#include <algorithm>
#include <string>

#include "apps/bench_json.h"

namespace remontoir {
namespace {

constexpr double kMicro = 1e6;

std::string Text(const HeadsName& name) {
  const int32_t last = name.first_head + (name.joined ? 2 : name.heads) - 1;
  std::string text = std::to_string(name.layer) + " / " + std::to_string(name.first_head);
  if (last > name.first_head) text += (name.joined ? "+" : "-") + std::to_string(last);
  return text;
}

void PrintPrefill(const SparseReport& report, std::FILE* out) {
  std::fprintf(out,
               "\nWhole prefills, sparse from position 4,288 on, sealing included, F32 pages\n"
               "%-12s %5s %6s %5s %4s %10s %9s %7s  %-16s %8s %8s %8s %6s %9s\n",
               "layer / head", "width", "n", "block", "eps", "exact, ms", "FMA share", "speed",
               "lowest ... high", "rel. L2", "density", "far read", "seal", "residual");
  for (const HeadsPrefill& heads : report.prefill) {
    for (const PrefillSpeed& row : heads.rows) {
      std::fprintf(out,
                   "%-12s %5d %6d %5d %4.1f %10.1f %9.3f %7.2f  %5.2f ... %5.2f  %8.4f %8.3f %8.3f "
                   "%6.3f %9.3f\n",
                   Text(heads.name).c_str(), heads.name.width, row.positions,
                   row.setting.block_keys, static_cast<double>(row.setting.epsilon),
                   1e3 * row.exact_seconds, row.fma_share, row.speed.median, row.speed.low,
                   row.speed.high, row.quality.rel_l2, row.quality.density, row.quality.far_density,
                   row.seal_part, row.quality.residual_max);
    }
  }
}

void PrintGrowth(const SparseReport& report, std::FILE* out) {
  std::fprintf(
      out, "\nTime ~ n^p from 8,192 to 32,768 positions, epsilon 0.2\n%-12s %5s %6s %10s %10s\n",
      "layer / head", "width", "exact", "blocks 16", "16 to 32");
  for (const HeadsPrefill& heads : report.prefill) {
    const std::optional<Growth> growth = GrowthOf(heads);
    if (!growth) continue;
    std::fprintf(out, "%-12s %5d %6.2f %10.2f %10.2f\n", Text(growth->name).c_str(),
                 growth->name.width, growth->exact, growth->blocks_of_16, growth->blocks_16_to_32);
  }
}

void PrintDecode(const SparseReport& report, std::FILE* out) {
  std::fprintf(out,
               "\nSingle rows, cold caches\n"
               "%5s %5s %8s %5s %6s %10s %7s  %-16s %10s %10s %8s %8s %13s\n",
               "layer", "heads", "KV heads", "pages", "n", "exact, us", "speed", "lowest ... high",
               "read share", "sparse's", "far read", "rel. L2", "seal, us/key");
  for (const DecodeSpeed& row : report.decode) {
    std::fprintf(out,
                 "%5d %5d %8d %5s %6d %10.1f %7.2f  %5.2f ... %5.2f  %10.3f %10.3f %8.3f %8.4f "
                 "%13.2f\n",
                 row.layer, row.heads, row.kv_heads, std::string(Info(row.type).name).c_str(),
                 row.positions, kMicro * row.exact_seconds, row.speed.median, row.speed.low,
                 row.speed.high, row.exact_read_share, row.sparse_read_share, row.far_density,
                 row.rel_l2, kMicro * row.seal_seconds);
  }
}

double WorstError(const AlarmReport& report) {
  double worst = 0;
  for (const RowAlarm& row : report.rows) worst = std::max(worst, row.error);
  return worst;
}

void PrintAlarms(const SparseReport& report, std::FILE* out) {
  std::fprintf(out,
               "\nRows whose error is more than 0.02 and twice their residual, of all heads\n"
               "%5s %6s %5s %4s %7s %7s %8s %12s\n",
               "layer", "n", "block", "eps", "rows", "of", "part", "worst error");
  const auto print = [&](const AlarmReport& row) {
    const std::string layer = row.layer < 0 ? "all" : std::to_string(row.layer);
    std::fprintf(out, "%5s %6d %5d %4.1f %7zu %7s %8.4f %12.3f\n", layer.c_str(), row.positions,
                 row.setting.block_keys, static_cast<double>(row.setting.epsilon), row.rows.size(),
                 row.decode ? "decode" : "prefill", MissedAlarms(row.rows), WorstError(row));
  };
  std::for_each(report.alarms.begin(), report.alarms.end(), print);
  const std::vector<AlarmReport> all = OfAllLayers(report.alarms);
  std::for_each(all.begin(), all.end(), print);
}

void WriteSetting(JsonWriter& json, const SparseSetting& setting) {
  json.Key("block_keys").Int(setting.block_keys);
  WriteNumber(json, "epsilon", static_cast<double>(setting.epsilon));
}

void WriteName(JsonWriter& json, const HeadsName& name) {
  json.Key("layer").Int(name.layer);
  json.Key("first_head").Int(name.first_head);
  json.Key("heads").Int(name.heads);
  json.Key("joined").Bool(name.joined);
  json.Key("width").Int(name.width);
}

void WritePrefill(JsonWriter& json, const HeadsName& name, const PrefillSpeed& row) {
  json.BeginObject();
  WriteName(json, name);
  json.Key("positions").Int(row.positions);
  WriteSetting(json, row.setting);
  WriteNumber(json, "exact_seconds", row.exact_seconds);
  WriteNumber(json, "sparse_seconds", row.sparse_seconds);
  WriteNumber(json, "seal_part", row.seal_part);
  WriteNumber(json, "fma_share", row.fma_share);
  WriteSpread(json, "speed", row.speed);
  WriteNumber(json, "rel_l2", row.quality.rel_l2);
  WriteNumber(json, "rel_l2_rows", row.quality.rel_l2_rows);
  WriteNumber(json, "density", row.quality.density);
  WriteNumber(json, "far_density", row.quality.far_density);
  WriteNumber(json, "residual_max", row.quality.residual_max);
  json.EndObject();
}

void WriteGrowth(JsonWriter& json, const Growth& growth) {
  json.BeginObject();
  WriteName(json, growth.name);
  WriteNumber(json, "exact", growth.exact);
  WriteNumber(json, "blocks_of_16", growth.blocks_of_16);
  WriteNumber(json, "blocks_16_to_32", growth.blocks_16_to_32);
  json.EndObject();
}

void WriteDecode(JsonWriter& json, const DecodeSpeed& row) {
  json.BeginObject();
  json.Key("layer").Int(row.layer);
  json.Key("heads").Int(row.heads);
  json.Key("kv_heads").Int(row.kv_heads);
  json.Key("type").String(Info(row.type).name);
  json.Key("positions").Int(row.positions);
  WriteSetting(json, row.setting);
  WriteNumber(json, "exact_seconds", row.exact_seconds);
  WriteNumber(json, "sparse_seconds", row.sparse_seconds);
  WriteSpread(json, "speed", row.speed);
  WriteNumber(json, "exact_read_share", row.exact_read_share);
  WriteNumber(json, "sparse_read_share", row.sparse_read_share);
  WriteNumber(json, "far_density", row.far_density);
  WriteNumber(json, "rel_l2_rows", row.rel_l2);
  WriteNumber(json, "seal_seconds_per_key", row.seal_seconds);
  json.EndObject();
}

void WriteAlarm(JsonWriter& json, const AlarmReport& row) {
  json.BeginObject();
  if (row.layer < 0) {
    json.Key("layer").String("all");
  } else {
    json.Key("layer").Int(row.layer);
  }
  json.Key("positions").Int(row.positions);
  WriteSetting(json, row.setting);
  json.Key("decode").Bool(row.decode);
  json.Key("rows").Int(std::ssize(row.rows));
  WriteNumber(json, "missed", MissedAlarms(row.rows));
  WriteNumber(json, "error_max", WorstError(row));
  json.EndObject();
}

}  // namespace

void WriteSpread(JsonWriter& json, const char* key, const Spread& spread) {
  json.Key(key).BeginObject();
  WriteNumber(json, "median", spread.median);
  WriteNumber(json, "low", spread.low);
  WriteNumber(json, "high", spread.high);
  json.EndObject();
}

void PrintSparse(const SparseReport& report, std::FILE* out) {
  if (report.prefill.empty()) {
    std::fprintf(out, "\nThese layers may not be sparse: they stay exact.\n");
    return;
  }
  PrintPrefill(report, out);
  if (report.decode.empty()) return;
  PrintGrowth(report, out);
  PrintDecode(report, out);
  PrintAlarms(report, out);
}

void WriteSparse(JsonWriter& json, const SparseReport& report) {
  const PrefillSpeed* judged = report.Judged();
  if (judged == nullptr) {
    json.Key("prefill_16k_x").Null();
    json.Key("rel_l2_16k").Null();
  } else {
    WriteNumber(json, "prefill_16k_x", judged->speed.median);
    WriteNumber(json, "rel_l2_16k", judged->quality.rel_l2);
  }
  json.Key("sparse").BeginObject();
  json.Key("prefill").BeginArray();
  for (const HeadsPrefill& heads : report.prefill) {
    for (const PrefillSpeed& row : heads.rows) WritePrefill(json, heads.name, row);
  }
  json.EndArray();
  json.Key("exponents").BeginArray();
  for (const HeadsPrefill& heads : report.prefill) {
    if (const std::optional<Growth> growth = GrowthOf(heads)) WriteGrowth(json, *growth);
  }
  json.EndArray();
  json.Key("decode").BeginArray();
  for (const DecodeSpeed& row : report.decode) WriteDecode(json, row);
  json.EndArray();
  json.Key("alarms").BeginArray();
  for (const AlarmReport& row : report.alarms) WriteAlarm(json, row);
  for (const AlarmReport& row : OfAllLayers(report.alarms)) WriteAlarm(json, row);
  json.EndArray();
  json.EndObject();
}

}  // namespace remontoir
