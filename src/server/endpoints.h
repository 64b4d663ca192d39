// Where requests may go: paths, methods, and the names under which they are counted.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace remontoir {

inline constexpr std::string_view kModelsPath = "/v1/models";

enum class Endpoint : uint8_t {
  kHealth,
  kMetrics,
  kModels,
  kModelInfo,
  kServerInfo,
  kChat,
  kCompletion,
  kTokenize,
  kDetokenize,
  kRenderChat,
  kEnginePlan,
  kOther,  // what no path names
};

struct PathEntry {
  std::string_view path;
  std::string_view method;
  Endpoint endpoint;
};

// Null: nothing is there.
const PathEntry* FindPath(std::string_view path);

// By Endpoint: the first path of each, then "other".
std::vector<std::string_view> EndpointNames();

}  // namespace remontoir
