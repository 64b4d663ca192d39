// Opens a model's files, joins the parts of a split one and hands out views.
#include "formats/model_file.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/mapped_file.h"
#include "formats/gguf.h"
#include "formats/metadata.h"
#include "formats/printable.h"
#include "formats/split.h"

namespace remontoir {

struct ModelFile::Contents {
  std::string path;
  uint32_t version = 0;
  Metadata metadata;  // of the first file
  std::vector<MappedFile> files;
  std::vector<TensorInfo> tensors;  // of all files
  std::vector<uint32_t> by_name;    // indices of tensors, sorted by name
  int64_t missing_bytes = 0;

  // Appends a file and what was read of it.
  void Add(MappedFile file, std::span<const TensorInfo> of_file, uint64_t end_bytes);
};

void ModelFile::Contents::Add(MappedFile file, std::span<const TensorInfo> of_file,
                              uint64_t end_bytes) {
  const auto index = static_cast<int>(files.size());
  for (TensorInfo tensor : of_file) {
    tensor.file_index = index;
    tensors.push_back(tensor);
  }
  const uint64_t size = file.bytes().size();
  if (end_bytes > size) {
    // Both are below 2^63, their sum over thousands of parts may not be.
    const auto missing = static_cast<int64_t>(end_bytes - size);
    if (__builtin_add_overflow(missing_bytes, missing, &missing_bytes)) missing_bytes = INT64_MAX;
  }
  files.push_back(std::move(file));
}

namespace {

Result<GgufContents> ReadMapped(const MappedFile& file, TensorData data) {
  auto contents = ReadGguf(file.bytes(), data);
  if (!contents.ok()) return contents.status().WithContext(file.path());
  return contents;
}

// Checks that a later file is the part it is taken for.
Status CheckPart(const Metadata& metadata, const SplitKeys& first, uint64_t part) {
  REM_ASSIGN_OR_RETURN(const SplitKeys keys, ReadSplitKeys(metadata));
  if (keys.count != first.count || keys.part != part) {
    return InvalidArgument("split.no and split.count say part " + std::to_string(keys.part + 1) +
                           " of " + std::to_string(keys.count) + ", wanted part " +
                           std::to_string(part + 1) + " of " + std::to_string(first.count));
  }
  return Status::Ok();
}

struct Part {
  MappedFile file;
  GgufContents gguf;
};

// Opens part `part` beside the first file.
Result<Part> OpenPart(std::string_view first_path, const SplitKeys& keys, uint64_t part,
                      TensorData data) {
  REM_ASSIGN_OR_RETURN(const std::string path, SplitPartPath(first_path, keys, part));
  auto file = MappedFile::Open(path);
  if (!file.ok()) {
    return file.status().WithContext("part " + std::to_string(part + 1) + " of the split model");
  }
  REM_ASSIGN_OR_RETURN(GgufContents contents, ReadMapped(*file, data));
  if (Status status = CheckPart(contents.metadata, keys, part); !status.ok()) {
    return status.WithContext(path);
  }
  return Part{*std::move(file), std::move(contents)};
}

Result<std::vector<uint32_t>> OrderByName(const std::vector<TensorInfo>& tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto name_of = [&](uint32_t i) { return tensors[i].name; };
  std::ranges::sort(order, {}, name_of);
  const auto twice = std::ranges::adjacent_find(order, {}, name_of);
  if (twice != order.end()) {
    return InvalidArgument("duplicate tensor name " + Quoted(name_of(*twice)));
  }
  return order;
}

}  // namespace

Result<ModelFile> ModelFile::Open(const std::string& path) { return OpenAs(path, Opening::kWhole); }

Result<ModelFile> ModelFile::OpenHeader(const std::string& path) {
  return OpenAs(path, Opening::kHeader);
}

Result<ModelFile> ModelFile::OpenAs(const std::string& path, Opening opening) {
  const TensorData data = opening == Opening::kWhole ? TensorData::kNeeded : TensorData::kNotNeeded;
  auto contents = std::make_unique<Contents>();
  contents->path = path;
  REM_ASSIGN_OR_RETURN(MappedFile first, MappedFile::Open(path));
  REM_ASSIGN_OR_RETURN(GgufContents gguf, ReadMapped(first, data));
  contents->version = gguf.version;
  contents->metadata = std::move(gguf.metadata);
  contents->Add(std::move(first), gguf.tensors, gguf.end_bytes);

  const auto join_parts = [&]() -> Status {
    REM_ASSIGN_OR_RETURN(const SplitKeys keys, ReadSplitKeys(contents->metadata));
    if (keys.part != 0) {
      return FailedPrecondition("split.no: this is part " + std::to_string(keys.part + 1) + " of " +
                                std::to_string(keys.count) + "; open the first, '…" +
                                SplitSuffix(0, keys.count) + "'");
    }
    for (uint64_t number = 1; number < keys.count; ++number) {
      REM_ASSIGN_OR_RETURN(Part part, OpenPart(path, keys, number, data));
      contents->Add(std::move(part.file), part.gguf.tensors, part.gguf.end_bytes);
    }
    if (keys.tensors.has_value() && *keys.tensors != contents->tensors.size()) {
      return InvalidArgument("split.tensors.count: " + std::to_string(*keys.tensors) +
                             ", but the files hold " + std::to_string(contents->tensors.size()) +
                             " tensors");
    }
    REM_ASSIGN_OR_RETURN(contents->by_name, OrderByName(contents->tensors));
    return Status::Ok();
  };
  if (Status status = join_parts(); !status.ok()) return status.WithContext(path);
  return ModelFile(std::move(contents));
}

ModelFile::ModelFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;
ModelFile::~ModelFile() = default;

const std::string& ModelFile::path() const { return contents_->path; }

std::string ModelFile::format() const { return "GGUF v" + std::to_string(contents_->version); }

int ModelFile::file_count() const { return static_cast<int>(contents_->files.size()); }

int64_t ModelFile::size_bytes() const {
  int64_t size = 0;
  for (const MappedFile& file : contents_->files) size += static_cast<int64_t>(file.bytes().size());
  return size;
}

int64_t ModelFile::missing_bytes() const { return contents_->missing_bytes; }

bool ModelFile::Has(std::string_view key) const { return contents_->metadata.Find(key) != nullptr; }

Result<uint64_t> ModelFile::GetUint(std::string_view key) const {
  return contents_->metadata.GetUint(key);
}
Result<double> ModelFile::GetFloat(std::string_view key) const {
  return contents_->metadata.GetFloat(key);
}
Result<bool> ModelFile::GetBool(std::string_view key) const {
  return contents_->metadata.GetBool(key);
}
Result<std::string_view> ModelFile::GetString(std::string_view key) const {
  return contents_->metadata.GetString(key);
}
Result<StringArrayView> ModelFile::GetStringArray(std::string_view key) const {
  return contents_->metadata.GetStringArray(key);
}
Result<std::vector<int64_t>> ModelFile::GetIntArray(std::string_view key) const {
  return contents_->metadata.GetIntArray(key);
}
Result<std::vector<float>> ModelFile::GetFloatArray(std::string_view key) const {
  return contents_->metadata.GetFloatArray(key);
}
std::vector<ModelFile::MetadataLine> ModelFile::DescribeMetadata() const {
  return contents_->metadata.Describe();
}

std::span<const TensorInfo> ModelFile::tensors() const { return contents_->tensors; }

const TensorInfo* ModelFile::FindTensor(std::string_view name) const {
  const auto name_of = [this](uint32_t i) { return contents_->tensors[i].name; };
  const auto found = std::ranges::lower_bound(contents_->by_name, name, {}, name_of);
  if (found == contents_->by_name.end() || name_of(*found) != name) return nullptr;
  return &contents_->tensors[*found];
}

void ModelFile::DropPages(const TensorInfo& tensor) const {
  contents_->files[static_cast<size_t>(tensor.file_index)].DropPages(
      tensor.file_offset, static_cast<size_t>(tensor.view.size_bytes));
}

}  // namespace remontoir
