// Reading the headers, and the hash that keeps tenants apart.
#include "server/request_room.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>

#include "api/headers.h"
#include "base/check.h"
#include "server/api_keys.h"

namespace remontoir {
namespace {

// Whether one of the directives is no-cache.
bool SaysNoCache(std::string_view directives) {
  constexpr std::string_view kBetween = ", \t";
  while (!directives.empty()) {
    const size_t end = directives.find_first_of(kBetween);
    if (EqualsIgnoreCase(directives.substr(0, end), "no-cache")) return true;
    if (end == std::string_view::npos) break;
    directives.remove_prefix(end + 1);
  }
  return false;
}

void AppendWithLength(std::string& bytes, std::string_view part) {
  const auto size = static_cast<uint64_t>(part.size());
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(size >> shift);
  bytes += part;
}

uint64_t ReadBytes(const unsigned char* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

}  // namespace

std::optional<ErrorBody> ReadRoomHeaders(const HttpHeaders& headers, RoomHeaders& room) {
  for (const auto& [name, value] : headers) {
    if (EqualsIgnoreCase(name, kHeaderCacheControl)) room.bypasses_cache |= SaysNoCache(value);
    if (EqualsIgnoreCase(name, kHeaderAttentionMode)) {
      if (!EqualsIgnoreCase(value, kExactAttention)) {
        return InvalidField(kHeaderAttentionMode, "must be exact");
      }
      room.exact = true;
    }
    if (!EqualsIgnoreCase(name, kHeaderKvCacheMode)) continue;
    if (EqualsIgnoreCase(value, kDynamicStrategy)) {
      room.dynamic = true;
    } else if (!EqualsIgnoreCase(value, "bucketed") &&
               !EqualsIgnoreCase(value, kBucketedStrategy)) {
      return InvalidField(kHeaderKvCacheMode, "must be dynamic or bucketed");
    }
  }
  room.api_key = BearerKey(headers.Find(kHeaderAuthorization).value_or(""));
  return std::nullopt;
}

PrefixKey PrefixKeyOf(std::string_view api_key, std::string_view cache_salt) {
  std::string bytes;
  AppendWithLength(bytes, api_key);
  AppendWithLength(bytes, cache_salt);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  REM_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1,
      "OpenSSL has SHA-256");
  return {.low = ReadBytes(digest.data()), .high = ReadBytes(digest.data() + 8)};
}

}  // namespace remontoir
