// Split keys and file names.
#include "formats/split.h"

namespace remontoir {
namespace {

constexpr uint64_t kSplitPartsMax = 4096;

std::string FiveDigits(uint64_t number) {
  const std::string digits = std::to_string(number);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

}  // namespace

Result<SplitKeys> ReadSplitKeys(const Metadata& metadata) {
  SplitKeys keys;
  if (metadata.Find("split.count") == nullptr) return keys;
  REM_ASSIGN_OR_RETURN(keys.count, metadata.GetUint("split.count"));
  if (keys.count <= 1) return SplitKeys{};
  if (keys.count > kSplitPartsMax) {
    return ResourceExhausted("split.count: " + std::to_string(keys.count) +
                             " files is above the bound of " + std::to_string(kSplitPartsMax));
  }
  REM_ASSIGN_OR_RETURN(keys.part, metadata.GetUint("split.no"));
  if (keys.part >= keys.count) {
    return InvalidArgument("split.no: " + std::to_string(keys.part) +
                           " is not below split.count, " + std::to_string(keys.count));
  }
  if (metadata.Find("split.tensors.count") != nullptr) {
    REM_ASSIGN_OR_RETURN(keys.tensors, metadata.GetUint("split.tensors.count"));
  }
  return keys;
}

std::string SplitSuffix(uint64_t part, uint64_t count) {
  return "-" + FiveDigits(part + 1) + "-of-" + FiveDigits(count) + ".gguf";
}

Result<std::string> SplitPartPath(std::string_view path, const SplitKeys& keys, uint64_t part) {
  const std::string own_suffix = SplitSuffix(keys.part, keys.count);
  const std::string wanted_suffix = SplitSuffix(part, keys.count);
  if (!path.ends_with(own_suffix)) {
    return FailedPrecondition("this is part " + std::to_string(keys.part + 1) +
                              " of a model split into " + std::to_string(keys.count) +
                              " files, but its name does not end in '" + own_suffix +
                              "', so part '…" + wanted_suffix + "' can't be found");
  }
  path.remove_suffix(own_suffix.size());
  return std::string(path) + wanted_suffix;
}

}  // namespace remontoir
