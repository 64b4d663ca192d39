// Operations on texts that methods and filters share. All keep the origin of what they keep.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/span_text.h"

namespace remontoir {

// Characters to strip: nullptr means white space.
SpanText StripText(const SpanText& text, const SpanText* characters, bool left, bool right);

enum class CaseMap { kUpper, kLower, kCapitalized, kTitle, kSwapped };
SpanText MapCase(const SpanText& text, CaseMap map);

// The first `count` occurrences; all if it is negative.
SpanText ReplaceText(const SpanText& text, const SpanText& old, const SpanText& replacement,
                     int64_t count);

// Splitting is an error beyond this many parts.
inline constexpr size_t kTextPartsMax = 100'000;

// At a separator that is not empty; at most `count` cuts, all if it is negative.
Result<std::vector<SpanText>> SplitText(const SpanText& text, std::string_view separator,
                                        int64_t count);
Result<std::vector<SpanText>> SplitTextFromEnd(const SpanText& text, std::string_view separator,
                                               int64_t count);
// At runs of white space; no part is empty.
Result<std::vector<SpanText>> SplitAtSpaces(const SpanText& text, int64_t count);
// At every kind of line end that Python knows.
Result<std::vector<SpanText>> SplitLines(const SpanText& text, bool keep_ends);

}  // namespace remontoir
