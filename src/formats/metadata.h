// Typed key-value pairs of a model file, kept as views into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"

namespace remontoir {

// GGUF's numbers.
enum class ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
inline constexpr uint32_t kValueTypeCount = 13;

std::string_view ValueTypeName(ValueType type);
// Bytes of a number or a bool; 0 for strings and arrays, whose size is written in the file.
size_t FixedBytes(ValueType type);

struct MetadataValue {
  ValueType type = ValueType::kUint8;
  // A number's bytes, a string's characters, an array's elements as they lie in the file.
  std::span<const std::byte> bytes;
  ValueType element_type = ValueType::kUint8;  // of an array
  uint64_t element_count = 0;                  // of an array
  std::vector<std::string_view> strings;       // of an array of strings
};

// Getters are documented at ModelFile, which passes its own on to these.
class Metadata {
 public:
  struct Entry {
    std::string_view key;
    MetadataValue value;
  };

  Metadata() = default;
  // Keys are valid UTF-8 and not empty; one that comes twice is an error.
  static Result<Metadata> FromEntries(std::vector<Entry> entries);

  const MetadataValue* Find(std::string_view key) const;  // nullptr when absent
  Result<uint64_t> GetUint(std::string_view key) const;
  Result<double> GetFloat(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<StringArrayView> GetStringArray(std::string_view key) const;
  Result<std::vector<int64_t>> GetIntArray(std::string_view key) const;
  Result<std::vector<float>> GetFloatArray(std::string_view key) const;

  // In the order of the file.
  std::vector<ModelFile::MetadataLine> Describe() const;

 private:
  Result<const MetadataValue*> Require(std::string_view key) const;

  std::vector<Entry> entries_;    // in the order of the file
  std::vector<uint32_t> by_key_;  // indices of entries_, sorted by key
};

}  // namespace remontoir
