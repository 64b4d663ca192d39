// A model file as it is on disk: metadata, tensors and where their bytes are mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/tensor_view.h"

namespace remontoir {

struct TensorInfo {
  std::string_view name;
  TensorView view;
  int file_index = 0;        // which split file holds it
  uint64_t file_offset = 0;  // of its first byte in that file
};

// Strings that lie in the mapped file.
class StringArrayView {
 public:
  StringArrayView() = default;
  explicit StringArrayView(std::span<const std::string_view> strings) : strings_(strings) {}
  size_t size() const { return strings_.size(); }
  std::string_view operator[](size_t i) const { return strings_[i]; }

 private:
  std::span<const std::string_view> strings_;
};

// Everything read was checked against the file's size before it was used; views live as long as
// this. Getters: NotFound names the key that is missing; InvalidArgument names key, found and
// wanted type.
class ModelFile {
 public:
  // Opens GGUF v2/v3, single or split (given its first part): maps all parts, checks header,
  // metadata and tensor table. Errors name the file and the field, key or tensor.
  static Result<ModelFile> Open(const std::string& path);

  // The same without the tensors' data, which may be missing: of a download that has only begun, or
  // of a header alone. The views have shapes and sizes and point nowhere.
  static Result<ModelFile> OpenHeader(const std::string& path);

  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;
  ~ModelFile();

  const std::string& path() const;
  std::string format() const;  // "GGUF v3"
  int file_count() const;
  int64_t size_bytes() const;     // of all parts, as they are
  int64_t missing_bytes() const;  // of tensors' data past the ends of the parts; 0 after Open

  bool Has(std::string_view key) const;
  Result<uint64_t> GetUint(std::string_view key) const;  // any integer type, not negative
  Result<double> GetFloat(std::string_view key) const;   // F32 or F64, as stored (may be NaN)
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<StringArrayView> GetStringArray(std::string_view key) const;
  Result<std::vector<int64_t>> GetIntArray(std::string_view key) const;  // any integer type
  Result<std::vector<float>> GetFloatArray(std::string_view key) const;  // F32 elements
  // Values for people: one line a key, long arrays and strings shortened.
  struct MetadataLine {
    std::string_view key;
    std::string type;
    std::string value;
  };
  std::vector<MetadataLine> DescribeMetadata() const;

  std::span<const TensorInfo> tensors() const;
  const TensorInfo* FindTensor(std::string_view name) const;  // nullptr when absent
  // Tells the system that a tensor's bytes won't be read again soon (after a repack).
  void DropPages(const TensorInfo& tensor) const;

 private:
  struct Contents;
  enum class Opening : uint8_t { kWhole, kHeader };
  static Result<ModelFile> OpenAs(const std::string& path, Opening opening);
  explicit ModelFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace remontoir
