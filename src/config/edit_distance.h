// How far apart two words are, to guess what a mistyped one was meant to be.
#pragma once

#include <cstddef>
#include <string_view>

namespace remontoir {

// Insertions, deletions and replacements of bytes that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace remontoir
