// Lines, tables and keys.
#include "apps/eval_long_context_report.h"

#include <string>

#include "apps/bench_json.h"

namespace remontoir {
namespace {

const char* ComputeName(const EvalLongContextOptions& options) {
  return options.compute == ComputeChoice::kF32 ? "f32" : "auto";
}

void PrintDistance(const char* what, const PredictionDistance& distance, std::FILE* out) {
  std::fprintf(out, "%-18s %10.4f %+9.3f %% %10.5f %10.5f %9.2f %%\n", what, distance.perplexity,
               100 * distance.perplexity_change(), distance.kl_mean, distance.kl_p99,
               100 * distance.top1_agreement);
}

void PrintLayers(const std::vector<LayerError>& layers, std::FILE* out) {
  if (layers.empty()) return;
  std::fprintf(out, "\n%5s %8s %9s %11s %9s %9s %9s %9s %9s\n", "layer", "rows", "error",
               "worst head", "its error", "largest", "residual", "density", "alarms");
  for (const LayerError& layer : layers) {
    std::fprintf(out, "%5d %8lld %9.4f %11d %9.4f %9.4f %9.4f %7.1f %% %7.3f %%\n", layer.layer,
                 static_cast<long long>(layer.rows), layer.error_mean, layer.worst_head,
                 layer.error_worst_head, layer.error_max, layer.residual_mean, 100 * layer.density,
                 100 * layer.alarm_rate);
  }
  const LayerSummary all = Summarise(layers);
  std::fprintf(out, "all layers: error %.4f, worst layer %d with %.4f, alarms %.3f %%\n",
               all.error_mean, all.worst_layer, all.error_worst_layer, 100 * all.alarm_rate);
}

void WriteDistance(JsonWriter& json, const char* key, const PredictionDistance& distance) {
  json.Key(key).BeginObject();
  WriteNumber(json, "perplexity", distance.perplexity);
  WriteNumber(json, "perplexity_change", distance.perplexity_change());
  WriteNumber(json, "kl_mean", distance.kl_mean);
  WriteNumber(json, "kl_p99", distance.kl_p99);
  WriteNumber(json, "top1_agreement", distance.top1_agreement);
  json.EndObject();
}

void WriteLayers(JsonWriter& json, const std::vector<LayerError>& layers) {
  json.Key("layers").BeginArray();
  for (const LayerError& layer : layers) {
    json.BeginObject();
    json.Key("layer").Int(layer.layer);
    json.Key("rows").Int(layer.rows);
    WriteNumber(json, "error_mean", layer.error_mean);
    json.Key("worst_head").Int(layer.worst_head);
    WriteNumber(json, "error_worst_head", layer.error_worst_head);
    WriteNumber(json, "error_max", layer.error_max);
    WriteNumber(json, "residual_mean", layer.residual_mean);
    WriteNumber(json, "residual_max", layer.residual_max);
    WriteNumber(json, "density", layer.density);
    WriteNumber(json, "alarm_rate", layer.alarm_rate);
    json.EndObject();
  }
  json.EndArray();
}

void WriteSummary(JsonWriter& json, const LayerSummary& all) {
  json.Key("all_layers").BeginObject();
  WriteNumber(json, "error_mean", all.error_mean);
  json.Key("worst_layer").Int(all.worst_layer);
  WriteNumber(json, "error_worst_layer", all.error_worst_layer);
  WriteNumber(json, "density", all.density);
  WriteNumber(json, "alarm_rate", all.alarm_rate);
  json.EndObject();
}

void WriteNeedles(JsonWriter& json, const NeedleReport& needles) {
  json.Key("needles").BeginObject();
  json.Key("prompt_tokens").Int(needles.prompt_tokens);
  json.Key("asked").Int(std::ssize(needles.trials));
  json.Key("found_exact").Int(needles.found_exact());
  json.Key("kept").Int(needles.kept());
  json.Key("trials").BeginArray();
  for (const NeedleTrial& trial : needles.trials) {
    json.BeginObject();
    json.Key("prompt").Int(trial.prompt);
    json.Key("kind").String(trial.needle.kind);
    json.Key("name").String(trial.needle.name);
    json.Key("code").String(trial.needle.code);
    json.Key("depth").Int(trial.depth);
    json.Key("found_exact").Bool(trial.exact.found);
    json.Key("found_sparse").Bool(trial.sparse.found);
    WriteNumber(json, "logprob_exact", trial.exact.logprob);
    WriteNumber(json, "logprob_sparse", trial.sparse.logprob);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

void PrintLongContext(const EvalLongContextOptions& options, const LongContextReport& report,
                      std::FILE* out) {
  std::fprintf(out,
               "%lld predictions at the end of %d tokens, compute %s, epsilon %g, blocks of %d "
               "keys\n",
               static_cast<long long>(report.sparse.predictions), options.context,
               ComputeName(options), options.epsilon, options.block_keys);
  std::fprintf(out, "far blocks: %.1f %% read exactly, largest residual %.3f\n\n",
               100 * report.density, report.residual_max);
  std::fprintf(out, "%-18s %10s %11s %10s %10s %11s\n", "", "perplexity", "change", "KL mean",
               "KL p99", "same top-1");
  std::fprintf(out, "%-18s %10.4f\n", "exact", report.sparse.perplexity_reference);
  PrintDistance("sparse", report.sparse, out);
  if (report.rounding) {
    std::fprintf(out, "%-18s %10.4f\n", "float32, exact",
                 report.rounding->exact.perplexity_reference);
    PrintDistance("  to exact", report.rounding->exact, out);
    PrintDistance("  to sparse", report.rounding->sparse, out);
  }
  PrintLayers(report.layers, out);
}

void PrintNeedles(const NeedleReport& needles, std::FILE* out) {
  std::fprintf(out,
               "\n%zu needles in prompts of %d tokens: exact attention finds %d, sparse %d of "
               "these\n",
               needles.trials.size(), needles.prompt_tokens, needles.found_exact(), needles.kept());
  for (const NeedleTrial& trial : needles.trials) {
    if (!trial.missed()) continue;
    std::fprintf(
        out, "missed: %s of %s, %s, at %d of prompt %d, log-probability exact %.2f, sparse %.2f\n",
        trial.needle.kind.c_str(), trial.needle.name.c_str(), trial.needle.code.c_str(),
        trial.depth, trial.prompt, trial.exact.logprob, trial.sparse.logprob);
  }
}

void PrintLongContextJson(const EvalLongContextOptions& options, const LongContextReport& report,
                          const std::optional<NeedleReport>& needles, std::FILE* out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("context").Int(options.context);
  json.Key("compute").String(ComputeName(options));
  WriteNumber(json, "epsilon", options.epsilon);
  json.Key("block_keys").Int(options.block_keys);
  json.Key("decode").Int(options.decode);
  json.Key("exact_prompt").Bool(options.exact_prompt);
  json.Key("predictions").Int(report.sparse.predictions);
  WriteNumber(json, "density", report.density);
  WriteNumber(json, "residual_max", report.residual_max);
  WriteNumber(json, "perplexity_exact", report.sparse.perplexity_reference);
  WriteDistance(json, "sparse", report.sparse);
  if (report.rounding) {
    json.Key("rounding").BeginObject();
    WriteNumber(json, "perplexity_float32", report.rounding->exact.perplexity_reference);
    WriteDistance(json, "exact", report.rounding->exact);
    WriteDistance(json, "sparse", report.rounding->sparse);
    json.EndObject();
  }
  WriteLayers(json, report.layers);
  WriteSummary(json, Summarise(report.layers));
  if (needles) WriteNeedles(json, *needles);
  json.EndObject();
  std::fprintf(out, "%s\n", json.Take().c_str());
}

}  // namespace remontoir
