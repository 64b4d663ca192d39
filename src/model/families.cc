// The families this build runs; each is defined in a file of its own.
#include <algorithm>
#include <array>

#include "model/family.h"

namespace remontoir {

extern const Family kGemma3Family;
extern const Family kLlamaFamily;

namespace {

constexpr std::array<const Family*, 2> kFamilies = {&kLlamaFamily, &kGemma3Family};

}  // namespace

std::string_view NameOf(std::span<const TensorName> names, TensorRole role) {
  for (const TensorName& entry : names) {
    if (entry.role == role) return entry.name;
  }
  return {};
}

const Family* FindFamily(std::string_view architecture) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family* family) { return family->architecture == architecture; });
  return found == kFamilies.end() ? nullptr : *found;
}

std::span<const Family* const> Families() { return kFamilies; }

}  // namespace remontoir
