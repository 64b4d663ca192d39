// Text to tokens, tokens through both modes, what that changes.
#include "apps/eval_long_context.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval_long_context_report.h"
#include "apps/progress_bar.h"
#include "apps/pull.h"
#include "base/clock.h"
#include "base/mapped_file.h"
#include "eval/long_context.h"
#include "eval/needle_trials.h"
#include "formats/model_file.h"
#include "model/model_info.h"
#include "model/model_loader.h"
#include "tensor/sealed_layout.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {
namespace {

// The text's first tokens, at most `count`, without BOS.
Result<std::vector<int32_t>> TokensOf(const Tokenizer& tokenizer, const std::string& path,
                                      int64_t count) {
  REM_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(path));
  const auto bytes = text.bytes();
  const std::string_view characters(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Tokens of much more than so many bytes are rare.
  constexpr int64_t kBytesPerToken = 16;
  const size_t most = std::min(characters.size(), static_cast<size_t>(count * kBytesPerToken));
  std::vector<int32_t> ids;
  for (const TokenId token : tokenizer.Encode(characters.substr(0, most), SpecialTokens::kAsText)) {
    if (std::ssize(ids) < count) ids.push_back(Index(token));
  }
  return ids;
}

// The first `count` tokens, a BOS included where the vocabulary wants one; InvalidArgument when
// there are fewer.
Result<std::vector<int32_t>> ContextOf(const Tokenizer& tokenizer, const std::vector<int32_t>& text,
                                       int32_t count) {
  std::vector<int32_t> ids;
  if (tokenizer.vocabulary().add_bos() && tokenizer.bos()) ids.push_back(Index(*tokenizer.bos()));
  ids.insert(ids.end(), text.begin(), text.end());
  if (std::ssize(ids) < count) {
    return InvalidArgument("--text has " + std::to_string(ids.size()) + " tokens, wanted " +
                           std::to_string(count));
  }
  ids.resize(static_cast<size_t>(count));
  return ids;
}

LoadOptions LoadOptionsOf(const EvalLongContextOptions& options) {
  LoadOptions load;
  load.context_max = options.context;
  load.rope.base_scale = options.rope_base_scale;
  load.sequences_max = 1;
  load.kv_memory.arena_pages = 2 * (options.context / kKvPageTokens + 1);
  if (options.compute == ComputeChoice::kF32) load.kv_type = DType::kF32;
  load.sparse.engage_at = kEngageAtCustomSparse;
  load.sparse.epsilon = static_cast<float>(options.epsilon);
  load.sparse.block_keys = options.block_keys;
  load.sparse.segments = FarSegments(options.context) + 1;
  return load;
}

// The same in float32, for one exact sequence.
LoadOptions Float32OptionsOf(const EvalLongContextOptions& options) {
  LoadOptions load = LoadOptionsOf(options);
  load.kv_memory.arena_pages /= 2;
  load.kv_type = DType::kF32;
  load.sparse = {};
  return load;
}

Result<std::unique_ptr<ModelRunner>> Load(const EvalLongContextOptions& options,
                                          const ModelFile& file, const ModelInfo& info,
                                          ComputeMode compute, const LoadOptions& load) {
  REM_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                       MakeCpuBackend({.threads = options.threads, .compute = compute}));
  return LoadModel(file, info, std::move(backend), load, nullptr);
}

}  // namespace

Status EvalLongContext(const EvalLongContextOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const std::string path, LocateModel(options.model, clock));
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromModelFile(file));
  const int32_t prompts = NeedlePrompts(options.needles);
  REM_ASSIGN_OR_RETURN(
      const std::vector<int32_t> text,
      TokensOf(tokenizer, options.text_file, int64_t{options.context} * std::max(1, prompts)));
  REM_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                       ContextOf(tokenizer, text, options.context));
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  const bool float32 = options.compute == ComputeChoice::kF32;
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> runner,
                       Load(options, file, info, float32 ? ComputeMode::kF32 : ComputeMode::kAuto,
                            LoadOptionsOf(options)));
  LongContextOptions compare;
  compare.scored_from = std::max(0, options.context - 1 - options.scored);
  compare.decode_from = options.context - options.decode;
  compare.exact_prompt = options.exact_prompt;
  REM_ASSIGN_OR_RETURN(compare.layer_kernels, CpuKernels());
  LongContextReport report;
  {
    std::unique_ptr<ModelRunner> reference;
    if (!float32 && options.rounding) {
      REM_ASSIGN_OR_RETURN(reference,
                           Load(options, file, info, ComputeMode::kF32, Float32OptionsOf(options)));
      compare.float32 = reference.get();
    }
    ProgressBar bar("reading", clock, TerminalWriter());
    report = CompareLongContext(*runner, tokens, compare,
                                [&](int32_t done) { bar.Update(done, options.context); });
  }
  // Needles take as long again: what is known is said before.
  if (!options.json) PrintLongContext(options, report, out);
  std::fflush(out);
  std::optional<NeedleReport> needles;
  if (options.needles > 0) {
    ProgressBar bar("asking", clock, TerminalWriter());
    REM_ASSIGN_OR_RETURN(needles, TryNeedles(*runner, tokenizer, text, options.needles,
                                             [&](int32_t done) { bar.Update(done, prompts); }));
  }
  if (options.json) {
    PrintLongContextJson(options, report, needles, out);
  } else if (needles) {
    PrintNeedles(*needles, out);
  }
  return Status::Ok();
}

}  // namespace remontoir
