// REM_CHECK: stops the process on a bug; never on anything that a file or a request can cause.
#pragma once

#include <string_view>

namespace remontoir {

// Prints where and what on stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view what);

}  // namespace remontoir

// On in every build: a wrong answer costs more than a branch.
#define REM_CHECK(condition, what)                                    \
  do {                                                                \
    if (!(condition)) [[unlikely]] {                                  \
      ::remontoir::CheckFailed(__FILE__, __LINE__, #condition, what); \
    }                                                                 \
  } while (false)
