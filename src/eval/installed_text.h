// Long texts that need no file of their own: what Debian 12 installs anyway.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace remontoir {

// The first `bytes` of the common licences and the Python standard library's sources, joined in the
// order of their paths: the same on machines with the same packages. May end inside a character.
// kNotFound: there is less.
Result<std::string> InstalledText(size_t bytes);

}  // namespace remontoir
