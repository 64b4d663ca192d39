// Model files that are only headers, from keys and shapes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "formats/model_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {

// A model file before it is written: keys without their architecture, shapes of float32 tensors.
struct Draft {
  std::string architecture;
  int layers = 3;
  std::map<std::string, std::pair<ValueType, std::string>> keys = {};
  std::map<std::string, std::vector<int64_t>> tensors = {};

  void Number(const std::string& key, uint32_t value) {
    keys[key] = {ValueType::kUint32, Bytes(value)};
  }
  void Real(const std::string& key, float value) {
    keys[key] = {ValueType::kFloat32, Bytes(value)};
  }
  void Text(const std::string& key, const std::string& value) {
    keys[key] = {ValueType::kString, StringBytes(value)};
  }
  void Flag(const std::string& key, bool value) { keys[key] = {ValueType::kBool, Bytes(value)}; }
  // The tensor of layers first, first + 1, ...
  void Layers(const std::string& name, const std::vector<int64_t>& shape, int first = 0) {
    for (int layer = first; layer < layers; ++layer) {
      tensors["blk." + std::to_string(layer) + "." + name] = shape;
    }
  }
};

// Writes drafts' headers and keeps them open.
class DraftFiles {
 public:
  const ModelFile& Write(const Draft& draft) {
    GgufBuilder builder;
    builder.Key("general.architecture", ValueType::kString, StringBytes(draft.architecture));
    for (const auto& [key, value] : draft.keys) {
      builder.Key(draft.architecture + "." + key, value.first, value.second);
    }
    uint64_t offset = 0;
    for (const auto& [name, shape] : draft.tensors) {
      constexpr uint32_t kF32 = 0;
      builder.TensorAt(name, shape, kF32, offset);
      uint64_t bytes = sizeof(float);
      for (const int64_t dimension : shape) bytes *= static_cast<uint64_t>(dimension);
      offset += (bytes + 31) / 32 * 32;
    }
    folder_.Write("model.gguf", builder.Build());
    auto opened = ModelFile::OpenHeader(folder_ / "model.gguf");
    REM_CHECK(opened.ok(), opened.status().message());
    files_.push_back(std::make_unique<ModelFile>(std::move(*opened)));
    return *files_.back();
  }

 private:
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<ModelFile>> files_;
};

}  // namespace remontoir
