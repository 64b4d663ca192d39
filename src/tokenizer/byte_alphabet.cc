// The byte alphabet as two small tables.
#include "tokenizer/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace remontoir {
namespace {

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr int kCharacters = 0x100 + 68;  // 68 bytes don't stand for themselves

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};  // -1: not in the alphabet

  constexpr Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int i = 0; i < 256; ++i) {
      character[i] = StandsForItself(i) ? static_cast<char32_t>(i) : next++;
      byte[character[i]] = static_cast<int16_t>(i);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

char32_t ByteAlphabetCharacter(uint8_t byte) { return kAlphabet.character[byte]; }

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  std::string bytes;
  while (!spelling.empty()) {
    const Utf8Character character = DecodeUtf8(spelling);
    if (!character.valid || character.code_point >= kCharacters) return std::nullopt;
    const int16_t byte = kAlphabet.byte[character.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    spelling.remove_prefix(character.length);
  }
  return bytes;
}

}  // namespace remontoir
