// Prints an engine's plan.
#include "apps/plan.h"

#include <string>

#include "apps/local_model.h"
#include "apps/pull.h"
#include "base/clock.h"

namespace remontoir {
namespace {

void PrintLine(std::FILE* out, const char* what, int64_t bytes, const std::string& detail) {
  std::fprintf(out, "%-18s %12.1f MiB   %s\n", what, static_cast<double>(bytes) / (1 << 20),
               detail.c_str());
}

void PrintModel(std::FILE* out, const ModelShape& shape, const EnginePlan& plan) {
  const std::string experts = shape.experts == 0 ? "dense"
                                                 : std::to_string(shape.experts_used) + " of " +
                                                       std::to_string(shape.experts) + " experts";
  std::fprintf(out, "model              %s: %d layers, width %d, %s, context %d\n",
               shape.architecture.c_str(), shape.layers, shape.width, experts.c_str(),
               plan.context_max);
  if (plan.missing_bytes > 0) {
    std::fprintf(out, "                   %s of its weights are not in the file\n",
                 GiB(plan.missing_bytes).c_str());
  }
}

void PrintRoom(std::FILE* out, const EnginePlan& plan) {
  const auto tokens = [&plan](int32_t pages) {
    return std::to_string(int64_t{pages} * kKvPageTokens) + " tokens of " +
           std::to_string(plan.page_bytes / kKvPageTokens) + " bytes in " +
           std::string(Info(plan.kv_type).name) + ", " + std::to_string(pages) + " pages";
  };
  PrintLine(
      out, "keys and values", plan.memory.kv_bytes,
      plan.dynamic ? "none: kv_cache.strategy is dynamic" : tokens(plan.memory.kv_page_count));
  if (plan.memory.segment_count > 0) {
    PrintLine(out, "sealed segments", plan.memory.sealed_bytes,
              std::to_string(plan.memory.segment_count) + " of " + std::to_string(kSegmentKeys) +
                  " tokens, for sparse attention");
  }
  PrintLine(out, "dynamic, at most", plan.memory.dynamic_bytes,
            tokens(plan.memory.dynamic_page_count));
}

void PrintClasses(std::FILE* out, const EnginePlan& plan) {
  if (plan.bucket_tokens.empty()) return;
  std::string lengths;
  for (const int32_t tokens : plan.bucket_tokens) lengths += std::to_string(tokens) + " ";
  std::fprintf(out, "classes            %stokens, %d of each\n", lengths.c_str(),
               plan.bucket_capacity);
}

}  // namespace

Status Plan(const PlanOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const std::string path,
                       LocateModel(options.engine.config.model.file, clock));
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::OpenHeader(path));
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  REM_ASSIGN_OR_RETURN(const EnginePlan plan,
                       PlanEngine(file, info, EngineOptionsOf(options.engine), FreeMemoryBytes()));
  PrintModel(out, info.shape, plan);
  PrintLine(out, "embedding", plan.mapped_bytes - plan.mapped_expert_bytes,
            "read from the file as it is, in no sum");
  if (plan.mapped_expert_bytes > 0) {
    PrintLine(out, "experts", plan.mapped_expert_bytes, "left in the file, in no sum");
  }
  PrintLine(out, "weights", plan.memory.weights_bytes, "in the kernels' order");
  PrintLine(out, "activations", plan.memory.activation_bytes,
            "rounds of " + std::to_string(plan.round_tokens_max) + " tokens, " +
                std::to_string(plan.sequences_max) + " sequences");
  PrintRoom(out, plan);
  PrintClasses(out, plan);
  PrintLine(out, "in all", plan.memory.total_bytes, "taken at start, but for what is dynamic");
  PrintLine(out, "free", plan.memory.free_bytes, "now");
  for (const std::string& note : plan.notes) std::fprintf(out, "%s\n", note.c_str());
  return plan.fits;
}

}  // namespace remontoir
