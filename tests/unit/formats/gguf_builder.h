// Writes small GGUF files for tests, right or wrong on purpose.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/metadata.h"

namespace remontoir {

// The bytes of a number, little-endian.
template <class T>
requires std::is_arithmetic_v<T> std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
inline std::string Bytes(ValueType type) { return Bytes(static_cast<uint32_t>(type)); }

// A string with its length before it.
inline std::string StringBytes(std::string_view text) {
  return Bytes(uint64_t{text.size()}) + std::string(text);
}

template <class T>
std::string ArrayBytes(ValueType element_type, const std::vector<T>& elements) {
  std::string bytes = Bytes(element_type) + Bytes(uint64_t{elements.size()});
  for (const T& element : elements) {
    if constexpr (std::is_arithmetic_v<T>) {
      bytes += Bytes(element);
    } else {
      bytes += StringBytes(element);
    }
  }
  return bytes;
}

class GgufBuilder {
 public:
  uint32_t version = 3;
  size_t alignment = 32;

  GgufBuilder& Key(std::string_view key, ValueType type, std::string_view value_bytes) {
    metadata_ += StringBytes(key) + Bytes(type) + std::string(value_bytes);
    ++key_count_;
    return *this;
  }

  // A tensor with its data at the next aligned offset.
  GgufBuilder& Tensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t ggml_type,
                      std::string_view data) {
    TensorAt(name, shape, ggml_type, data_.size());
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }

  // A tensor with any offset, and no data of its own.
  GgufBuilder& TensorAt(std::string_view name, const std::vector<int64_t>& shape,
                        uint32_t ggml_type, uint64_t offset) {
    table_ += StringBytes(name) + Bytes(static_cast<uint32_t>(shape.size()));
    for (const int64_t dimension : shape) table_ += Bytes(dimension);
    table_ += Bytes(ggml_type) + Bytes(offset);
    ++tensor_count_;
    return *this;
  }

  std::string Build() const {
    std::string file =
        "GGUF" + Bytes(version) + Bytes(tensor_count_) + Bytes(key_count_) + metadata_ + table_;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }

 private:
  std::string metadata_;
  std::string table_;
  std::string data_;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
};

inline std::span<const std::byte> AsBytes(const std::string& file) {
  return std::as_bytes(std::span(file));
}

}  // namespace remontoir
