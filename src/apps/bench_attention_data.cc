// Tokenizes, loads as many layers as are asked for, and looks on.
#include "apps/bench_attention_data.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/mapped_file.h"
#include "eval/installed_text.h"
#include "kv/kv_pool.h"
#include "model/model_loader.h"
#include "tensor/sealed_layout.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {
namespace {

constexpr size_t kBytesPerToken = 6;  // more than texts have

Result<std::string> ReadText(const std::string& file, int32_t tokens) {
  const size_t bytes = kBytesPerToken * static_cast<size_t>(tokens);
  std::string text;
  if (file.empty()) {
    REM_ASSIGN_OR_RETURN(text, InstalledText(bytes));
  } else {
    REM_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(file));
    const auto all = mapped.bytes();
    text.assign(reinterpret_cast<const char*>(all.data()), std::min(all.size(), bytes));
  }
  // Whole lines, where there are any: none ends inside a character.
  const size_t last = text.rfind('\n');
  if (last != std::string::npos) text.resize(last + 1);
  return text;
}

Result<std::vector<int32_t>> ReadTokens(const ModelFile& model, const std::string& text_file,
                                        int32_t tokens) {
  REM_ASSIGN_OR_RETURN(const std::string text, ReadText(text_file, tokens));
  REM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromModelFile(model));
  std::vector<int32_t> ids;
  if (tokenizer.vocabulary().add_bos() && tokenizer.bos()) ids.push_back(Index(*tokenizer.bos()));
  for (const TokenId token : tokenizer.Encode(text, SpecialTokens::kAsText)) {
    ids.push_back(Index(token));
  }
  if (ids.size() < static_cast<size_t>(tokens)) {
    return InvalidArgument("the text has " + std::to_string(ids.size()) + " tokens, wanted " +
                           std::to_string(tokens));
  }
  ids.resize(static_cast<size_t>(tokens));
  return ids;
}

}  // namespace

Result<std::vector<CapturedAttention>> CaptureLayers(const CaptureRequest& request) {
  const int32_t tokens = request.tokens;
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(request.model_file));
  REM_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadTokens(file, request.text_file, tokens));
  REM_ASSIGN_OR_RETURN(ModelInfo info, ReadModelInfo(file));
  std::vector<int32_t> wanted;
  for (const int32_t layer : request.layers) {
    wanted.push_back(std::min(layer, info.shape.layers - 1));
  }
  info.shape.layers = *std::max_element(wanted.begin(), wanted.end()) + 1;
  LoadOptions options;
  options.context_max = tokens;
  if (tokens > info.shape.context_trained) options.rope.base_scale = request.rope_base_scale;
  options.kv_type = DType::kF32;
  options.sequences_max = 1;
  options.kv_memory.arena_pages = PagesFor(tokens);
  if (tokens > request.exact_tokens) {
    options.sparse.engage_at = std::max(request.exact_tokens, kEngageAtCustomSparse);
    options.sparse.segments = tokens / kSegmentKeys + 1;
  }
  REM_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend({}));
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> runner,
                       LoadModel(file, info, std::move(backend), options, nullptr));
  return CaptureAttention(*runner, ids, wanted);
}

}  // namespace remontoir
