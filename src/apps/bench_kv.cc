// Prints what the two measurements say, as tables or as one object.
#include "apps/bench_kv.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "apps/bench_json.h"
#include "apps/bench_kv_history.h"
#include "apps/bench_kv_rooms.h"

namespace remontoir {
namespace {

constexpr double kMebibyte = 1 << 20;

void PrintRooms(const std::vector<RoomRow>& rows, std::FILE* out) {
  std::fprintf(out, "from admission to usable room, microseconds; bucketed and dynamic in turns\n");
  std::fprintf(out, "%-14s %7s %9s | %9s %9s %9s %6s | %11s %11s %11s %6s | %9s\n", "shape",
               "tokens", "MiB", "bucketed", "P99", "max", "times", "dynamic", "P99", "max", "times",
               "saved");
  for (const RoomRow& row : rows) {
    std::fprintf(out, "%-14s %7d %9.1f | ", row.shape.c_str(), row.tokens,
                 static_cast<double>(row.bytes) / kMebibyte);
    if (!row.fits) {
      std::fprintf(out, "left out: twice this is more than half of free memory\n");
      continue;
    }
    std::fprintf(out, "%9.1f %9.1f %9.1f %6d | %11.1f %11.1f %11.1f %6d | %8.3f%%\n",
                 row.bucketed.median_us, row.bucketed.p99_us, row.bucketed.max_us,
                 row.bucketed.count, row.dynamic.median_us, row.dynamic.p99_us, row.dynamic.max_us,
                 row.dynamic.count, 100 * row.saved());
  }
}

// The largest distance from the fit, as a share of it.
double WorstOf(const HistoryCurve& curve) {
  double worst = 0;
  for (const HistoryRow& row : curve.rows) worst = std::max(worst, std::abs(row.over_fit() - 1));
  return worst;
}

void PrintHistory(const HistoryCurve& curve, std::FILE* out) {
  std::fprintf(out,
               "\nfirst token after a cached history, ms; fit: %.2f + %.4f fresh + %.3e fresh x "
               "context\n",
               curve.fit_ms[0], curve.fit_ms[1], curve.fit_ms[2]);
  std::fprintf(out, "%8s %6s %7s %9s %21s %9s %7s\n", "history", "fresh", "cached", "median",
               "lowest ... highest", "fitted", "/fit");
  for (const HistoryRow& row : curve.rows) {
    std::fprintf(out, "%8d %6d %7d %9.2f %10.2f %10.2f %9.2f %7.3f\n", row.history, row.fresh,
                 row.cached, row.first_token_ms, row.low_ms, row.high_ms, row.fitted_ms,
                 row.over_fit());
  }
  std::fprintf(out, "farthest from the fit: %.1f %%\n", 100 * WorstOf(curve));
}

void WriteTimes(JsonWriter& json, const char* key, const RoomTimes& times) {
  json.Key(key).BeginObject();
  json.Key("count").Int(times.count);
  WriteNumber(json, "median_us", times.median_us);
  WriteNumber(json, "p99_us", times.p99_us);
  WriteNumber(json, "max_us", times.max_us);
  json.EndObject();
}

void WriteRooms(JsonWriter& json, const std::vector<RoomRow>& rows) {
  json.Key("rooms").BeginArray();
  for (const RoomRow& row : rows) {
    json.BeginObject();
    json.Key("shape").String(row.shape);
    json.Key("tokens").Int(row.tokens);
    json.Key("bytes").Int(row.bytes);
    json.Key("measured").Bool(row.fits);
    if (row.fits) {
      WriteTimes(json, "bucketed", row.bucketed);
      WriteTimes(json, "dynamic", row.dynamic);
      WriteNumber(json, "saved", row.saved());
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteHistory(JsonWriter& json, const HistoryCurve& curve) {
  json.Key("history").BeginObject();
  json.Key("fit_ms").BeginArray();
  for (const double term : curve.fit_ms) json.Float(static_cast<float>(term));
  json.EndArray();
  WriteNumber(json, "farthest_from_fit", WorstOf(curve));
  json.Key("rows").BeginArray();
  for (const HistoryRow& row : curve.rows) {
    json.BeginObject();
    json.Key("history").Int(row.history);
    json.Key("fresh").Int(row.fresh);
    json.Key("cached").Int(row.cached);
    WriteNumber(json, "first_token_ms", row.first_token_ms);
    WriteNumber(json, "low_ms", row.low_ms);
    WriteNumber(json, "high_ms", row.high_ms);
    WriteNumber(json, "fitted_ms", row.fitted_ms);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

Status BenchKv(const BenchKvOptions& options, std::FILE* out) {
  REM_ASSIGN_OR_RETURN(const std::vector<RoomRow> rooms, MeasureRooms(options.rounds));
  HistoryCurve curve;
  if (!options.file.empty()) {
    REM_ASSIGN_OR_RETURN(curve, MeasureHistory(options.file, options.threads, options.rounds));
  }
  if (options.json) {
    JsonWriter json;
    json.BeginObject();
    WriteRooms(json, rooms);
    if (!curve.rows.empty()) WriteHistory(json, curve);
    json.EndObject();
    std::fprintf(out, "%s\n", json.Take().c_str());
    return Status::Ok();
  }
  PrintRooms(rooms, out);
  if (!curve.rows.empty()) PrintHistory(curve, out);
  return Status::Ok();
}

}  // namespace remontoir
