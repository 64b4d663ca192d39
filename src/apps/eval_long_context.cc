// Text to tokens, tokens through both modes, the comparison as a line or as JSON.
#include "apps/eval_long_context.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "apps/progress_bar.h"
#include "apps/pull.h"
#include "base/clock.h"
#include "base/mapped_file.h"
#include "eval/long_context.h"
#include "formats/model_file.h"
#include "model/model_info.h"
#include "model/model_loader.h"
#include "tensor/sealed_layout.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {
namespace {

// The first `count` tokens; InvalidArgument when there are fewer.
Result<std::vector<int32_t>> FirstTokens(const Tokenizer& tokenizer, const std::string& path,
                                         int32_t count) {
  REM_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(path));
  const auto bytes = text.bytes();
  const std::string_view characters(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<int32_t> ids;
  if (tokenizer.vocabulary().add_bos() && tokenizer.bos()) ids.push_back(Index(*tokenizer.bos()));
  // Tokens of much more than so many bytes are rare.
  constexpr size_t kBytesPerToken = 16;
  const size_t most = std::min(characters.size(), static_cast<size_t>(count) * kBytesPerToken);
  for (const TokenId token : tokenizer.Encode(characters.substr(0, most), SpecialTokens::kAsText)) {
    ids.push_back(Index(token));
  }
  if (std::ssize(ids) < count) {
    return InvalidArgument(path + ": " + std::to_string(ids.size()) + " tokens, wanted " +
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
  load.sparse.engage_at = kEngageAtCustomSparse;
  load.sparse.epsilon = static_cast<float>(options.epsilon);
  load.sparse.block_keys = options.block_keys;
  load.sparse.segments = FarSegments(options.context) + 1;
  return load;
}

void Print(const EvalLongContextOptions& options, const LongContextReport& report, std::FILE* out) {
  const double change = report.perplexity_sparse / report.perplexity_exact - 1;
  if (options.json) {
    std::fprintf(out,
                 "{\"context\":%d,\"epsilon\":%g,\"block_keys\":%d,\"predictions\":%lld,"
                 "\"perplexity_exact\":%.6f,\"perplexity_sparse\":%.6f,\"perplexity_change\":%.6f,"
                 "\"kl_mean\":%.7f,\"kl_p99\":%.7f,\"top1_agreement\":%.6f,\"density\":%.5f,"
                 "\"residual_max\":%.5f}\n",
                 options.context, options.epsilon, options.block_keys,
                 static_cast<long long>(report.predictions), report.perplexity_exact,
                 report.perplexity_sparse, change, report.kl_mean, report.kl_p99,
                 report.top1_agreement, report.density, report.residual_max);
    return;
  }
  std::fprintf(out, "%lld predictions at the end of %d tokens, epsilon %g, blocks of %d keys\n",
               static_cast<long long>(report.predictions), options.context, options.epsilon,
               options.block_keys);
  std::fprintf(out, "perplexity   exact %.4f, sparse %.4f (%+.3f %%)\n", report.perplexity_exact,
               report.perplexity_sparse, 100 * change);
  std::fprintf(out, "KL           mean %.5f, 99th percentile %.5f\n", report.kl_mean,
               report.kl_p99);
  std::fprintf(out, "same top-1   %.2f %%\n", 100 * report.top1_agreement);
  std::fprintf(out, "far blocks   %.1f %% read exactly, largest residual %.3f\n",
               100 * report.density, report.residual_max);
}

}  // namespace

Status EvalLongContext(const EvalLongContextOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const std::string path, LocateModel(options.model, clock));
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromModelFile(file));
  REM_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                       FirstTokens(tokenizer, options.text_file, options.context));
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  REM_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                       MakeCpuBackend({.threads = options.threads}));
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> runner,
                       LoadModel(file, info, std::move(backend), LoadOptionsOf(options), nullptr));
  LongContextOptions compare;
  compare.scored_from = std::max(0, options.context - 1 - options.scored);
  compare.decode_from = options.context - options.decode;
  ProgressBar bar("reading", clock, TerminalWriter());
  const LongContextReport report = CompareLongContext(
      *runner, tokens, compare, [&](int32_t done) { bar.Update(done, options.context); });
  Print(options, report, out);
  return Status::Ok();
}

}  // namespace remontoir
