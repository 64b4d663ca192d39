// The table of paths.
#include "server/endpoints.h"

#include <algorithm>
#include <iterator>

namespace remontoir {
namespace {

constexpr PathEntry kPaths[] = {
    {"/health", "GET", Endpoint::kHealth},
    {"/metrics", "GET", Endpoint::kMetrics},
    {kModelsPath, "GET", Endpoint::kModels},
    {"/model_info", "GET", Endpoint::kModelInfo},
    {"/get_model_info", "GET", Endpoint::kModelInfo},
    {"/server_info", "GET", Endpoint::kServerInfo},
    {"/get_server_info", "GET", Endpoint::kServerInfo},
    {"/v1/chat/completions", "POST", Endpoint::kChat},
    {"/v1/completions", "POST", Endpoint::kCompletion},
    {"/v1/chat/completions/render", "POST", Endpoint::kRenderChat},
    {"/tokenize", "POST", Endpoint::kTokenize},
    {"/detokenize", "POST", Endpoint::kDetokenize},
    {"/v1/engine/plan", "GET", Endpoint::kEnginePlan},
};

}  // namespace

const PathEntry* FindPath(std::string_view path) {
  // Below the list of models is each of them.
  const bool is_model =
      path.starts_with(kModelsPath) && path.substr(kModelsPath.size()).starts_with('/');
  const auto* const found =
      std::ranges::find(kPaths, is_model ? kModelsPath : path, &PathEntry::path);
  return found == std::end(kPaths) ? nullptr : found;
}

std::vector<std::string_view> EndpointNames() {
  std::vector<std::string_view> names(static_cast<size_t>(Endpoint::kOther) + 1, "other");
  for (const PathEntry& entry : kPaths) {
    std::string_view& name = names[static_cast<size_t>(entry.endpoint)];
    if (name == "other") name = entry.path;
  }
  return names;
}

}  // namespace remontoir
