// Reads request traces: CSV of arrival times and lengths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulation/arrival.h"

namespace remontoir {

inline constexpr size_t kTraceRowsMax = 10'000'000;
inline constexpr int32_t kTraceTokensMax = 1 << 20;       // of a prompt, and of an output
inline constexpr int64_t kTraceUsMax = int64_t{1} << 50;  // 35 years

// A header that begins with t_us,prompt_tokens,output_tokens (further columns are passed over),
// then rows in order of time. Lengths of 0 count as 1. Errors say "NAME:LINE: ...".
Result<std::vector<Arrival>> ParseTrace(std::string_view text, const std::string& name);

// The same for a file. One that is packed (.xz) has to be unpacked before.
Result<std::vector<Arrival>> ReadTrace(const std::string& path);

}  // namespace remontoir
