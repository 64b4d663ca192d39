// Lookup and typed reading of metadata.
#include "formats/metadata.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "formats/printable.h"

namespace remontoir {
namespace {

// What Describe shows of a long value.
constexpr size_t kStringCharactersMax = 100;
constexpr size_t kElementCharactersMax = 16;
constexpr uint64_t kElementsShownMax = 6;

struct TypeTraits {
  std::string_view name;
  size_t fixed_bytes;
  bool is_integer;
};

// In the order of ValueType.
constexpr std::array<TypeTraits, kValueTypeCount> kTypes = {{
    {"uint8", 1, true},
    {"int8", 1, true},
    {"uint16", 2, true},
    {"int16", 2, true},
    {"uint32", 4, true},
    {"int32", 4, true},
    {"float32", 4, false},
    {"bool", 1, false},
    {"string", 0, false},
    {"array", 0, false},
    {"uint64", 8, true},
    {"int64", 8, true},
    {"float64", 8, false},
}};

bool IsInteger(ValueType type) { return kTypes[static_cast<size_t>(type)].is_integer; }

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// An integer of any type: 64 bits in two's complement, and whether they mean a negative number.
struct Integer {
  uint64_t bits = 0;
  bool negative = false;
};

template <class T>
Integer LoadInteger(const std::byte* at) {
  const T value = Load<T>(at);
  return {static_cast<uint64_t>(value), value < T{0}};
}

Integer LoadInteger(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kUint8: return LoadInteger<uint8_t>(at);
    case ValueType::kInt8: return LoadInteger<int8_t>(at);
    case ValueType::kUint16: return LoadInteger<uint16_t>(at);
    case ValueType::kInt16: return LoadInteger<int16_t>(at);
    case ValueType::kUint32: return LoadInteger<uint32_t>(at);
    case ValueType::kInt32: return LoadInteger<int32_t>(at);
    case ValueType::kUint64: return LoadInteger<uint64_t>(at);
    case ValueType::kInt64: return LoadInteger<int64_t>(at);
    default: break;
  }
  REM_CHECK(false, "not an integer type");
}

std::string TypeText(const MetadataValue& value) {
  std::string name(ValueTypeName(value.type));
  if (value.type == ValueType::kArray) {
    name += " of ";
    name += ValueTypeName(value.element_type);
  }
  return name;
}

Status WrongType(std::string_view key, const MetadataValue& value, std::string_view wanted) {
  return InvalidArgument(std::string(key) + ": its type is " + TypeText(value) + ", wanted " +
                         std::string(wanted));
}

// A number or bool as people write it.
std::string Spell(ValueType type, const std::byte* at) {
  if (type == ValueType::kBool) return Load<uint8_t>(at) != 0 ? "true" : "false";
  std::array<char, 32> text{};
  const auto spell = [&](auto value, auto... format) {
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr;
    return std::string(text.data(), end);
  };
  // The shortest digits that read back as the same number; no exponent where people need none.
  const auto spell_float = [&](auto value) {
    const bool plain = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e9);
    return plain ? spell(value, std::chars_format::fixed) : spell(value);
  };
  if (type == ValueType::kFloat32) return spell_float(Load<float>(at));
  if (type == ValueType::kFloat64) return spell_float(Load<double>(at));
  const Integer integer = LoadInteger(type, at);
  return integer.negative ? spell(static_cast<int64_t>(integer.bits)) : spell(integer.bits);
}

std::string SpellElement(const MetadataValue& array, uint64_t i) {
  if (array.element_type == ValueType::kString) {
    return '"' + Printable(array.strings[i], kElementCharactersMax) + '"';
  }
  return Spell(array.element_type, array.bytes.data() + i * FixedBytes(array.element_type));
}

std::string SpellArray(const MetadataValue& array) {
  if (array.element_type == ValueType::kArray) {
    return "[… " + std::to_string(array.element_count) + " in all]";
  }
  std::string text = "[";
  for (uint64_t i = 0; i < array.element_count; ++i) {
    if (i > 0) text += ", ";
    if (i == kElementsShownMax) {
      return text + "… " + std::to_string(array.element_count) + " in all]";
    }
    text += SpellElement(array, i);
  }
  return text + "]";
}

std::string_view Characters(const MetadataValue& string) {
  return {reinterpret_cast<const char*>(string.bytes.data()), string.bytes.size()};
}

std::string SpellValue(const MetadataValue& value) {
  switch (value.type) {
    case ValueType::kString: return Printable(Characters(value), kStringCharactersMax);
    case ValueType::kArray: return SpellArray(value);
    default: return Spell(value.type, value.bytes.data());
  }
}

}  // namespace

std::string_view ValueTypeName(ValueType type) { return kTypes[static_cast<size_t>(type)].name; }

size_t FixedBytes(ValueType type) { return kTypes[static_cast<size_t>(type)].fixed_bytes; }

Result<Metadata> Metadata::FromEntries(std::vector<Entry> entries) {
  Metadata metadata;
  metadata.entries_ = std::move(entries);
  auto& order = metadata.by_key_;
  order.resize(metadata.entries_.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto key_of = [&](uint32_t i) { return metadata.entries_[i].key; };
  std::ranges::sort(order, {}, key_of);
  const auto twice = std::ranges::adjacent_find(order, {}, key_of);
  if (twice != order.end()) {
    return InvalidArgument("duplicate metadata key " + Quoted(key_of(*twice)));
  }
  return metadata;
}

const MetadataValue* Metadata::Find(std::string_view key) const {
  const auto key_of = [this](uint32_t i) { return entries_[i].key; };
  const auto found = std::ranges::lower_bound(by_key_, key, {}, key_of);
  if (found == by_key_.end() || key_of(*found) != key) return nullptr;
  return &entries_[*found].value;
}

Result<const MetadataValue*> Metadata::Require(std::string_view key) const {
  const MetadataValue* value = Find(key);
  if (value == nullptr) return NotFound("metadata key " + std::string(key) + " is missing");
  return value;
}

Result<uint64_t> Metadata::GetUint(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (!IsInteger(value->type)) return WrongType(key, *value, "an integer");
  const Integer integer = LoadInteger(value->type, value->bytes.data());
  if (integer.negative) {
    return InvalidArgument(std::string(key) + ": " +
                           std::to_string(static_cast<int64_t>(integer.bits)) + " is negative");
  }
  return integer.bits;
}

Result<double> Metadata::GetFloat(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (value->type == ValueType::kFloat64) return Load<double>(value->bytes.data());
  if (value->type == ValueType::kFloat32) {
    return static_cast<double>(Load<float>(value->bytes.data()));
  }
  return WrongType(key, *value, "float32 or float64");
}

Result<bool> Metadata::GetBool(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (value->type != ValueType::kBool) return WrongType(key, *value, "bool");
  return Load<uint8_t>(value->bytes.data()) != 0;
}

Result<std::string_view> Metadata::GetString(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (value->type != ValueType::kString) return WrongType(key, *value, "string");
  return Characters(*value);
}

Result<StringArrayView> Metadata::GetStringArray(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (value->type != ValueType::kArray || value->element_type != ValueType::kString) {
    return WrongType(key, *value, "array of string");
  }
  return StringArrayView(value->strings);
}

Result<std::vector<int64_t>> Metadata::GetIntArray(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (value->type != ValueType::kArray || !IsInteger(value->element_type)) {
    return WrongType(key, *value, "array of integers");
  }
  const size_t element_bytes = FixedBytes(value->element_type);
  std::vector<int64_t> integers;
  integers.reserve(value->element_count);
  for (uint64_t i = 0; i < value->element_count; ++i) {
    const std::byte* at = value->bytes.data() + i * element_bytes;
    const Integer integer = LoadInteger(value->element_type, at);
    if (!integer.negative && integer.bits > std::numeric_limits<int64_t>::max()) {
      return InvalidArgument(std::string(key) + ": element " + std::to_string(i) + " is " +
                             std::to_string(integer.bits) + ", above 2^63 - 1");
    }
    integers.push_back(static_cast<int64_t>(integer.bits));
  }
  return integers;
}

Result<std::vector<float>> Metadata::GetFloatArray(std::string_view key) const {
  REM_ASSIGN_OR_RETURN(const MetadataValue* value, Require(key));
  if (value->type != ValueType::kArray || value->element_type != ValueType::kFloat32) {
    return WrongType(key, *value, "array of float32");
  }
  std::vector<float> floats(value->element_count);
  if (!floats.empty()) std::memcpy(floats.data(), value->bytes.data(), value->bytes.size());
  return floats;
}

std::vector<ModelFile::MetadataLine> Metadata::Describe() const {
  std::vector<ModelFile::MetadataLine> lines;
  lines.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    lines.push_back({entry.key, TypeText(entry.value), SpellValue(entry.value)});
  }
  return lines;
}

}  // namespace remontoir
