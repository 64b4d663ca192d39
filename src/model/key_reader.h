// Reads one file's "<architecture>.<name>" keys, every value checked before it is used.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/model_file.h"
#include "model/family.h"

namespace remontoir {

// Errors name the key, its value and what was expected. ...Or: a key that isn't there gives
// `fallback`, unchecked.
class KeyReader {
 public:
  // `file` must outlive the reader. The family's unread keys aren't there.
  KeyReader(const ModelFile& file, const Family& family)
      : file_(file), prefix_(std::string(family.architecture) + "."), unread_(family.unread_keys) {}

  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }
  bool Has(std::string_view name) const {
    return std::find(unread_.begin(), unread_.end(), name) == unread_.end() && file_.Has(Key(name));
  }

  // A whole number of min ... max; max is at most INT32_MAX.
  Result<int32_t> Count(std::string_view name, uint64_t min, uint64_t max) const {
    const std::string key = Key(name);
    REM_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(key));
    if (value < min || value > max) {
      return InvalidArgument(key + " = " + std::to_string(value) + ", expected " +
                             std::to_string(min) + " ... " + std::to_string(max));
    }
    return static_cast<int32_t>(value);
  }

  Result<int32_t> CountOr(std::string_view name, uint64_t min, uint64_t max,
                          int32_t fallback) const {
    if (!Has(name)) return fallback;
    return Count(name, min, max);
  }

  // A finite number above 0.
  Result<double> Positive(std::string_view name) const {
    const std::string key = Key(name);
    REM_ASSIGN_OR_RETURN(const double value, file_.GetFloat(key));
    if (!std::isfinite(value) || value <= 0) {
      return InvalidArgument(key + " = " + std::to_string(value) +
                             ", expected a finite number above 0");
    }
    return value;
  }

  Result<double> PositiveOr(std::string_view name, double fallback) const {
    if (!Has(name)) return fallback;
    return Positive(name);
  }

  // A soft cap: a finite number above 0, or 0 for none.
  Result<float> CapOr(std::string_view name, float fallback) const {
    if (!Has(name)) return fallback;
    const std::string key = Key(name);
    REM_ASSIGN_OR_RETURN(const double value, file_.GetFloat(key));
    const auto cap = static_cast<float>(value);
    if (!std::isfinite(cap) || cap < 0 || (value > 0 && cap == 0)) {
      return InvalidArgument(key + " = " + std::to_string(value) +
                             ", expected 0 (no cap) or a finite number above it");
    }
    return cap;
  }

  Result<bool> FlagOr(std::string_view name, bool fallback) const {
    if (!Has(name)) return fallback;
    return file_.GetBool(Key(name));
  }

 private:
  const ModelFile& file_;
  std::string prefix_;
  std::span<const std::string_view> unread_;
};

}  // namespace remontoir
