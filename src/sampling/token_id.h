// The number of a token in a model's vocabulary; shared by the text and the number wing.
#pragma once

#include <cstdint>

namespace remontoir {

enum class TokenId : int32_t {};

inline constexpr TokenId kNoToken{-1};

inline constexpr int32_t Index(TokenId token) { return static_cast<int32_t>(token); }

}  // namespace remontoir
