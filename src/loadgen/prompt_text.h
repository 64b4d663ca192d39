// Prompts of about a wanted length that no earlier prompt begins like.
#pragma once

#include <cstdint>
#include <string>

namespace remontoir {

// `tokens` common short words, drawn from (seed, index): with most vocabularies a token each. Two
// prompts of different indices share no more than a word or two at their beginning.
std::string PromptText(uint64_t seed, int64_t index, int32_t tokens);

}  // namespace remontoir
