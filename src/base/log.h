// One line a message on stderr; spdlog stays behind this interface.
#pragma once

#include <string_view>

namespace remontoir {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void SetLogLevel(LogLevel level);
void Log(LogLevel level, std::string_view message);

// A line of its own form: {"time":"2026-01-31T12:00:00.000Z","level":"info",FIELDS}, where `fields`
// are members of a JSON object without line breaks.
void LogJson(LogLevel level, std::string_view fields);

inline void LogDebug(std::string_view message) { Log(LogLevel::kDebug, message); }
inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }

}  // namespace remontoir
