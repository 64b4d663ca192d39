// The end of a process that found a bug in itself.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace remontoir {

void CheckFailed(const char* file, int line, const char* condition, std::string_view what) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%.*s)\n", file, line, condition,
               static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace remontoir
