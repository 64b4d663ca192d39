// The families this build runs; each is defined in a file of its own.
#include <algorithm>
#include <array>

#include "model/family.h"

namespace remontoir {

extern const Family kDeepSeek2Family;
extern const Family kGemma2Family;
extern const Family kGemma3Family;
extern const Family kGptOssFamily;
extern const Family kGrokFamily;
extern const Family kLlamaFamily;
extern const Family kPhi3Family;
extern const Family kQwen2Family;
extern const Family kQwen2MoeFamily;
extern const Family kQwen3Family;
extern const Family kQwen3MoeFamily;

namespace {

constexpr std::array<const Family*, 11> kFamilies = {
    &kLlamaFamily,    &kGemma2Family, &kGemma3Family,   &kGptOssFamily,
    &kPhi3Family,     &kQwen2Family,  &kQwen2MoeFamily, &kQwen3Family,
    &kQwen3MoeFamily, &kGrokFamily,   &kDeepSeek2Family};

}  // namespace

std::string_view NameOf(std::span<const TensorName> names, TensorRole role) {
  for (const TensorName& entry : names) {
    if (entry.role == role) return entry.name;
  }
  return {};
}

const Family* FindFamily(std::string_view architecture, Compat compat) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family* family) { return family->architecture == architecture; });
  if (found == kFamilies.end()) return nullptr;
  const Family* other = (*found)->as_llama_cpp;
  return compat == Compat::kLlamaCpp && other != nullptr ? other : *found;
}

std::span<const Family* const> Families() { return kFamilies; }

}  // namespace remontoir
