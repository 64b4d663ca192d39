// Text to windows of tokens, windows through the model, losses to one number.
#include "apps/perplexity.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "apps/local_model.h"
#include "apps/progress_bar.h"
#include "apps/pull.h"
#include "base/clock.h"
#include "base/mapped_file.h"
#include "eval/teacher_forcing.h"

namespace remontoir {
namespace {

std::vector<int32_t> TokensOf(const Tokenizer& tokenizer, const MappedFile& text) {
  const auto bytes = text.bytes();
  const std::string_view characters(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<int32_t> ids;
  for (const TokenId token : tokenizer.Encode(characters, SpecialTokens::kAsText)) {
    ids.push_back(Index(token));
  }
  return ids;
}

// Of all windows, one after the other.
std::vector<double> Losses(ModelRunner& runner, const std::vector<int32_t>& tokens,
                           const std::vector<int32_t>& prefix, int32_t window, ProgressBar& bar) {
  std::vector<double> losses;
  const size_t step = static_cast<size_t>(window) - prefix.size();
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    std::vector<int32_t> context = prefix;
    const size_t end = std::min(begin + step, tokens.size());
    context.insert(context.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                   tokens.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<double> some = NegativeLogLikelihoods(runner, context);
    losses.insert(losses.end(), some.begin(), some.end());
    bar.Update(static_cast<int64_t>(end), static_cast<int64_t>(tokens.size()));
  }
  return losses;
}

// Two standard errors of the mean loss, as a share of the perplexity.
double Spread(const std::vector<double>& losses, double perplexity) {
  const double mean = std::log(perplexity);
  double squares = 0;
  for (const double loss : losses) squares += (loss - mean) * (loss - mean);
  const auto count = static_cast<double>(losses.size());
  return 2 * perplexity * std::sqrt(squares / count / count);
}

}  // namespace

Status MeasurePerplexity(const PerplexityOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(options.text_file));
  REM_ASSIGN_OR_RETURN(const std::string path,
                       LocateModel(options.engine.config.model.file, clock));
  REM_ASSIGN_OR_RETURN(ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromModelFile(file));
  const std::vector<int32_t> tokens = TokensOf(tokenizer, text);
  std::vector<int32_t> prefix;
  if (tokenizer.vocabulary().add_bos() && tokenizer.bos())
    prefix.push_back(Index(*tokenizer.bos()));
  if (prefix.size() + tokens.size() < 2) {
    return InvalidArgument(options.text_file + ": too short, it has " +
                           std::to_string(tokens.size()) + " tokens");
  }
  LoadEngineOptions load = EngineOptionsOf(options.engine);
  load.backend.repack_cache = RepackCacheOf(options.engine.config.model);
  load.engine.sequences_max = 1;
  if (load.context_max == 0) {
    REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
    load.context_max = std::min(options.window, info.shape.context_trained);
  }
  LoadedModel model;
  {
    ProgressBar bar("loading", clock, TerminalWriter());
    REM_ASSIGN_OR_RETURN(model, OpenModel(std::move(file), load, [&](int64_t done, int64_t total) {
                           bar.Update(done, total);
                         }));
  }
  LogNotes(model.runner->backend().weights_report());
  const int32_t window = std::min(options.window, model.runner->limits().context_max);
  ProgressBar bar("reading", clock, TerminalWriter());
  const std::vector<double> losses = Losses(*model.runner, tokens, prefix, window, bar);
  const double perplexity = Perplexity(losses);
  std::fprintf(out, "perplexity %.4f +- %.4f over %zu tokens in windows of %d\n", perplexity,
               Spread(losses, perplexity), losses.size(), window);
  return Status::Ok();
}

}  // namespace remontoir
