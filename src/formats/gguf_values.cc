// Metadata values of every type, arrays of arrays included.
#include "formats/gguf_values.h"

#include "formats/printable.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

constexpr size_t kKeyBytesMax = 65535;  // the specification's bound
constexpr int kArrayDepthMax = 4;
// Strings are indexed by 16 bytes each; the largest vocabularies have under half a million merges.
constexpr uint64_t kStringArrayMax = uint64_t{1} << 21;

Result<ValueType> ReadValueType(ByteCursor& cursor, std::string_view what) {
  REM_ASSIGN_OR_RETURN(const auto number, cursor.Read<uint32_t>(what));
  if (number >= kValueTypeCount) {
    return InvalidArgument(std::string(what) + " " + std::to_string(number) + " is unknown");
  }
  return static_cast<ValueType>(number);
}

// The least number of bytes that a value of this type takes in a file.
uint64_t LeastBytes(ValueType type) {
  switch (type) {
    case ValueType::kString: return sizeof(uint64_t);
    case ValueType::kArray: return sizeof(uint32_t) + sizeof(uint64_t);
    default: return FixedBytes(type);
  }
}

struct ArrayHeader {
  ValueType element_type = ValueType::kUint8;
  uint64_t element_count = 0;
};

Result<ArrayHeader> ReadArrayHeader(ByteCursor& cursor) {
  ArrayHeader header;
  REM_ASSIGN_OR_RETURN(header.element_type, ReadValueType(cursor, "array element type"));
  REM_ASSIGN_OR_RETURN(header.element_count, cursor.Read<uint64_t>("the array length"));
  if (header.element_count > cursor.remaining() / LeastBytes(header.element_type)) {
    return InvalidArgument("array length " + std::to_string(header.element_count) + " of " +
                           std::string(ValueTypeName(header.element_type)) +
                           " does not fit in the " + std::to_string(cursor.remaining()) +
                           " bytes left in the file");
  }
  return header;
}

// Steps over the elements of an array that nobody reads: one inside another array.
Status SkipElements(ByteCursor& cursor, const ArrayHeader& header, int depth) {
  if (depth > kArrayDepthMax) {
    return InvalidArgument("arrays nested deeper than " + std::to_string(kArrayDepthMax));
  }
  const size_t fixed_bytes = FixedBytes(header.element_type);
  if (fixed_bytes > 0) {
    return cursor.Take(header.element_count * fixed_bytes, "array").status();
  }
  for (uint64_t i = 0; i < header.element_count; ++i) {
    if (header.element_type == ValueType::kString) {
      REM_RETURN_IF_ERROR(cursor.ReadString("a string of the array").status());
    } else {
      REM_ASSIGN_OR_RETURN(const ArrayHeader inner, ReadArrayHeader(cursor));
      REM_RETURN_IF_ERROR(SkipElements(cursor, inner, depth + 1));
    }
  }
  return Status::Ok();
}

Status ReadStrings(ByteCursor& cursor, uint64_t count, std::vector<std::string_view>& strings) {
  if (count > kStringArrayMax) {
    return ResourceExhausted("array length " + std::to_string(count) +
                             " is above the bound for strings, " + std::to_string(kStringArrayMax));
  }
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    auto string = cursor.ReadString("a string of the array");
    if (!string.ok()) return string.status().WithContext("element " + std::to_string(i));
    strings.push_back(*string);
  }
  return Status::Ok();
}

Status ReadArray(ByteCursor& cursor, MetadataValue& value) {
  REM_ASSIGN_OR_RETURN(const ArrayHeader header, ReadArrayHeader(cursor));
  value.element_type = header.element_type;
  value.element_count = header.element_count;
  switch (header.element_type) {
    case ValueType::kString: return ReadStrings(cursor, header.element_count, value.strings);
    case ValueType::kArray: return SkipElements(cursor, header, 1);
    default: break;
  }
  const size_t element_bytes = FixedBytes(header.element_type);
  REM_ASSIGN_OR_RETURN(value.bytes, cursor.Take(header.element_count * element_bytes, "array"));
  return Status::Ok();
}

Result<MetadataValue> ReadValue(ByteCursor& cursor) {
  MetadataValue value;
  REM_ASSIGN_OR_RETURN(value.type, ReadValueType(cursor, "value type"));
  switch (value.type) {
    case ValueType::kArray: {
      REM_RETURN_IF_ERROR(ReadArray(cursor, value));
      return value;
    }
    case ValueType::kString: {
      REM_ASSIGN_OR_RETURN(const auto string, cursor.ReadString("string"));
      value.bytes = std::as_bytes(std::span(string));
      return value;
    }
    default: break;
  }
  REM_ASSIGN_OR_RETURN(value.bytes, cursor.Take(FixedBytes(value.type), "value"));
  if (value.type == ValueType::kBool && std::to_integer<int>(value.bytes[0]) > 1) {
    return InvalidArgument("a bool is 0 or 1, not " +
                           std::to_string(std::to_integer<int>(value.bytes[0])));
  }
  return value;
}

}  // namespace

Status CheckName(std::string_view name, size_t bytes_max) {
  if (name.empty()) return InvalidArgument("it is empty");
  if (name.size() > bytes_max) {
    return InvalidArgument("its length is " + std::to_string(name.size()) + " bytes, above " +
                           std::to_string(bytes_max));
  }
  if (!IsValidUtf8(name)) return InvalidArgument(Quoted(name) + " is not valid UTF-8");
  return Status::Ok();
}

Result<Metadata::Entry> ReadMetadataEntry(ByteCursor& cursor) {
  Metadata::Entry entry;
  REM_ASSIGN_OR_RETURN(entry.key, cursor.ReadString("key"));
  if (Status status = CheckName(entry.key, kKeyBytesMax); !status.ok()) {
    return status.WithContext("key");
  }
  auto value = ReadValue(cursor);
  if (!value.ok()) return value.status().WithContext("key " + Quoted(entry.key));
  entry.value = *std::move(value);
  return entry;
}

}  // namespace remontoir
