// What Unicode says of characters: composed form (NFC), case, and kinds.
#pragma once

#include <string>
#include <string_view>

namespace remontoir {

// The text in normalization form C, in n log n time. The text must be valid UTF-8.
std::string ComposeNfc(std::string_view text);

// One character's simple case mappings.
char32_t ToUpper(char32_t c);
char32_t ToLower(char32_t c);
char32_t ToTitle(char32_t c);

bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsLetter(char32_t c);        // general category L*
bool IsDecimalDigit(char32_t c);  // Nd
bool IsNumeric(char32_t c);       // N*
bool IsSpace(char32_t c);         // White_Space, and the separators U+001C to U+001F
bool IsPrintable(char32_t c);     // neither control, unassigned nor a separator but the plain space

}  // namespace remontoir
