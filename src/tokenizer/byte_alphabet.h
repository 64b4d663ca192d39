// The alphabet in which byte-level vocabularies spell their tokens: one printable character a byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remontoir {

// GPT-2's alphabet: the printable Latin-1 bytes stand for themselves; the others, in order, are
// U+0100, U+0101, ...
char32_t ByteAlphabetCharacter(uint8_t byte);

// The bytes that a spelling stands for; nullopt if it has a character outside of the alphabet.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace remontoir
