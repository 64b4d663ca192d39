// Tokens through the model, rows beside the reference's, one verdict.
#include "apps/eval_logits.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "apps/bench_json.h"
#include "apps/local_model.h"
#include "apps/pull.h"
#include "base/clock.h"
#include "eval/npy_file.h"
#include "eval/teacher_forcing.h"

namespace remontoir {
namespace {

// Of none given: what float32 keeps, or what 8-bit activations may do; where they make a router
// choose another expert they do more.
LogitsBounds BoundsOf(const EvalLogitsOptions& options, const ModelShape& shape) {
  const LogitsBounds& given = options.bounds;
  if (given.max_abs || given.rms_relative || given.kl_mean || given.top1_share) return given;
  LogitsBounds bounds;
  if (options.engine.compute == ComputeChoice::kF32) {
    bounds.max_abs = 1e-3;
  } else {
    bounds.rms_relative = shape.experts > 0 ? 0.12 : 0.06;
    bounds.kl_mean = 0.02;
  }
  return bounds;
}

Status CheckShapes(const EvalLogitsOptions& options, const NpyMatrix& reference,
                   const ModelShape& shape) {
  const auto tokens = static_cast<int64_t>(options.tokens.size());
  if (reference.columns != shape.vocabulary_size) {
    return InvalidArgument(options.reference + ": rows of " + std::to_string(reference.columns) +
                           " logits, but the model has " + std::to_string(shape.vocabulary_size) +
                           " tokens");
  }
  if (reference.rows < 1 || reference.rows > tokens) {
    return InvalidArgument(options.reference + ": " + std::to_string(reference.rows) +
                           " rows for " + std::to_string(tokens) +
                           " tokens, wanted one a token or fewer, of the last ones");
  }
  for (const int32_t token : options.tokens) {
    if (token < 0 || token >= shape.vocabulary_size) {
      return InvalidArgument("--tokens: " + std::to_string(token) + ", the model has 0 ... " +
                             std::to_string(shape.vocabulary_size - 1));
    }
  }
  return Status::Ok();
}

void Print(const LogitsDistance& distance, const std::string& exceeded, std::FILE* out) {
  std::fprintf(out, "rows          %lld\n", static_cast<long long>(distance.rows));
  std::fprintf(out, "max_abs       %.6g\n", distance.max_abs);
  std::fprintf(out, "rms_relative  %.6g\n", distance.rms_relative);
  std::fprintf(out, "kl_mean       %.6g nats\n", distance.kl_mean);
  std::fprintf(out, "kl_max        %.6g nats\n", distance.kl_max);
  std::fprintf(out, "top1_share    %.6g\n", distance.top1_share);
  std::fprintf(out, "%s\n", exceeded.empty() ? "pass" : ("fail: " + exceeded).c_str());
}

// What is infinite is null.
void WriteDistance(JsonWriter& json, const char* key, double value) {
  if (value <= static_cast<double>(std::numeric_limits<float>::max())) {
    WriteNumber(json, key, value);
  } else {
    json.Key(key).Null();
  }
}

void PrintJson(const LogitsDistance& distance, const std::string& exceeded, std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("rows").Int(distance.rows);
  WriteDistance(json, "max_abs", distance.max_abs);
  WriteDistance(json, "rms_relative", distance.rms_relative);
  WriteDistance(json, "kl_mean", distance.kl_mean);
  WriteDistance(json, "kl_max", distance.kl_max);
  WriteDistance(json, "top1_share", distance.top1_share);
  json.Key("pass").Bool(exceeded.empty());
  json.EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace

Status EvalLogits(const EvalLogitsOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const NpyMatrix reference, ReadNpyMatrix(options.reference));
  REM_ASSIGN_OR_RETURN(const std::string path,
                       LocateModel(options.engine.config.model.file, clock));
  REM_ASSIGN_OR_RETURN(ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  REM_RETURN_IF_ERROR(CheckShapes(options, reference, info.shape));
  const auto tokens = static_cast<int32_t>(options.tokens.size());
  LoadEngineOptions load = EngineOptionsOf(options.engine);
  load.engine.sequences_max = 1;
  if (load.context_max == 0) load.context_max = std::min(info.shape.context_trained, tokens + 1);
  if (tokens > load.context_max) {
    return InvalidArgument("--tokens: " + std::to_string(tokens) + " of them, the context is " +
                           std::to_string(load.context_max));
  }
  REM_ASSIGN_OR_RETURN(const LoadedModel model, OpenModel(std::move(file), load, nullptr));
  LogitsMeter meter;
  const auto first = tokens - static_cast<int32_t>(reference.rows);
  RunTeacherForced(*model.runner, options.tokens, model.runner->limits().rows_max, first,
                   [&](int32_t position, std::span<const float> logits) {
                     meter.Add(reference.Row(position - first), logits);
                   });
  const LogitsDistance distance = meter.Get();
  const std::string exceeded = Exceeded(distance, BoundsOf(options, info.shape));
  (options.json ? PrintJson : Print)(distance, exceeded, out);
  if (exceeded.empty()) return Status::Ok();
  return FailedPrecondition("the logits are too far from " + options.reference + ": " + exceeded);
}

}  // namespace remontoir
