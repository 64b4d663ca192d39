// Tokens for tests of the KV room: streams that share nothing, and prompts that begin alike.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/check.h"
#include "kv/kv_pool.h"

namespace remontoir {

// Tokens first ... first + count - 1 of an endless stream; two streams differ in every token.
inline std::vector<int32_t> StreamTokens(int32_t stream, int32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (int32_t i = first; i < first + count; ++i) tokens.push_back(stream * 100'000 + i);
  return tokens;
}

inline std::vector<int32_t> Joined(std::initializer_list<std::vector<int32_t>> parts) {
  std::vector<int32_t> joined;
  for (const auto& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

// `common` tokens of stream 0, then others up to `count`.
inline std::vector<int32_t> PromptSharing(int32_t common, int32_t count, int32_t stream = 1) {
  return Joined({StreamTokens(0, common), StreamTokens(stream, count - common)});
}

inline std::vector<KvPageId> PagesOf(const KvLease& lease) {
  return {lease.pages().begin(), lease.pages().end()};
}

inline constexpr PrefixKey kKey = {1, 2};

// A sequence of these tokens was here and has gone.
inline void RunThrough(KvPool& pool, std::span<const int32_t> tokens, PrefixKey key = kKey) {
  KvLease lease(pool, pool.page_count());
  const PrefixMatch match = pool.prefix_cache().Match(key, tokens);
  REM_CHECK(lease.Reserve(match, PagesFor(static_cast<int64_t>(tokens.size()))), "no room");
  lease.TailCopied();
  lease.PublishAndRelease(tokens);
}

}  // namespace remontoir
