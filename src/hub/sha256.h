// SHA-256 of a file that is open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace remontoir {

// 64 lower-case hex digits of everything from the start of `descriptor`, whose position stays where
// it is. `go_on(bytes read)` is asked every few MB; kCancelled when it says no. `path` is for
// errors.
Result<std::string> Sha256OfFile(int descriptor, const std::string& path,
                                 const std::function<bool(int64_t)>& go_on);

}  // namespace remontoir
