// The bench as a servant: Boost.JSON reads the requests and stays in this file.
#include <boost/json.hpp>
#include <iostream>
#include <string>

#include "api/json_writer.h"
#include "apps/bench_engine.h"

namespace remontoir {
namespace {

namespace json = boost::json;

Result<int32_t> IntField(const json::object& request, std::string_view name, int32_t fallback) {
  const json::value* field = request.if_contains({name.data(), name.size()});
  if (field == nullptr) return fallback;
  if (!field->is_int64() || field->as_int64() < 0 || field->as_int64() > INT32_MAX) {
    return InvalidArgument(std::string(name) + ": wanted a whole number");
  }
  return static_cast<int32_t>(field->as_int64());
}

Result<BenchRow> ParseRow(const std::string& line) {
  json::error_code error;
  const json::value value = json::parse(line, error);
  if (error || !value.is_object()) return InvalidArgument("a line must be a JSON object");
  const json::object& request = value.as_object();
  const json::value* kind = request.if_contains("row");
  BenchRow row;
  if (kind != nullptr && *kind == "prompt") {
    row.kind = BenchRow::Kind::kPrompt;
  } else if (kind != nullptr && *kind == "decode") {
    row.kind = BenchRow::Kind::kDecode;
  } else if (kind != nullptr && *kind == "batch") {
    row.kind = BenchRow::Kind::kBatch;
  } else {
    return InvalidArgument("row: wanted prompt, decode or batch");
  }
  REM_ASSIGN_OR_RETURN(row.tokens, IntField(request, "tokens", 0));
  REM_ASSIGN_OR_RETURN(row.sequences, IntField(request, "sequences", 1));
  REM_ASSIGN_OR_RETURN(row.steps, IntField(request, "steps", 0));
  return row;
}

// Whether a line asks for the ceilings, which aren't a row of the model.
bool AsksForCeilings(const std::string& line) {
  json::error_code error;
  const json::value value = json::parse(line, error);
  const json::object* request = error ? nullptr : value.if_object();
  const json::value* kind = request == nullptr ? nullptr : request->if_contains("row");
  return kind != nullptr && *kind == "ceilings";
}

std::string AnswerCeilings(CeilingMeter& meter) {
  JsonWriter writer;
  writer.BeginObject();
  writer.Key("ceilings").Raw(CeilingsJson(meter.Measure()));
  writer.EndObject();
  return writer.Take();
}

std::string Answer(BenchRunner& runner, CeilingMeter& meter, const std::string& line) {
  const Result<BenchRow> row = ParseRow(line);
  const Ceilings before = meter.Now();
  const Result<BenchSample> sample =
      row.ok() ? runner.Measure(*row) : Result<BenchSample>(row.status());
  JsonWriter writer;
  writer.BeginObject();
  if (sample.ok()) {
    writer.Key("seconds").Float(static_cast<float>(sample->seconds));
    writer.Key("tokens").Int(sample->tokens);
    const Ceilings around = Between(before, meter.Now());
    writer.Key("ceiling_seconds").Float(static_cast<float>(CeilingSeconds(sample->work, around)));
    writer.Key("step_seconds").BeginArray();
    for (const double step : sample->step_seconds) writer.Float(static_cast<float>(step));
    writer.EndArray();
  } else {
    writer.Key("error").String(sample.status().message());
  }
  writer.EndObject();
  return writer.Take();
}

void PrintLine(const std::string& line, std::FILE* out) {
  std::fprintf(out, "%s\n", line.c_str());
  std::fflush(out);
}

}  // namespace

Status ServeBenchRows(BenchRunner& runner, CeilingMeter& meter, std::FILE* out) {
  JsonWriter hello;
  hello.BeginObject();
  hello.Key("engine").String("remontoir");
  hello.Key("describe").String(runner.backend().Describe());
  hello.Key("file").String(runner.file().path());
  hello.Key("ceilings").Raw(CeilingsJson(meter.best()));
  hello.EndObject();
  PrintLine(hello.Take(), out);
  std::string line;
  while (std::getline(std::cin, line)) {
    PrintLine(AsksForCeilings(line) ? AnswerCeilings(meter) : Answer(runner, meter, line), out);
  }
  return Status::Ok();
}

}  // namespace remontoir
