// Text from a file, made fit for a terminal or an error message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace remontoir {

// Invalid UTF-8 becomes U+FFFD, control characters become escapes ("\n", "\x1b"), and what is
// longer than characters_max ends in "…".
std::string Printable(std::string_view text, size_t characters_max);

// The same in single quotes, short enough for a message: names of keys and tensors.
std::string Quoted(std::string_view name);

}  // namespace remontoir
