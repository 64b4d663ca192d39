// OpenSSL's SHA-256 over blocks read with pread.
#include "hub/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr size_t kBlockBytes = 4 << 20;

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

Result<std::string> Sha256OfFile(int descriptor, const std::string& path,
                                 const std::function<bool(int64_t)>& go_on) {
  const std::unique_ptr<EVP_MD_CTX, ContextDeleter> context(EVP_MD_CTX_new());
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return Unsupported("OpenSSL has no SHA-256 here");
  }
  std::vector<unsigned char> block(kBlockBytes);
  int64_t offset = 0;
  while (true) {
    const ssize_t count = pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(path + ": cannot be read: " + std::strerror(errno));
    if (count == 0) break;
    REM_CHECK(EVP_DigestUpdate(context.get(), block.data(), static_cast<size_t>(count)) == 1,
              "SHA-256 takes any bytes");
    offset += count;
    if (!go_on(offset)) return Cancelled(path + ": stopped while it was checked");
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  REM_CHECK(EVP_DigestFinal_ex(context.get(), digest, &size) == 1, "SHA-256 ends");
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += {kHex[digest[i] >> 4], kHex[digest[i] & 15]};
  return hex;
}

}  // namespace remontoir
