// Expected shapes by role, and the check of a file's tensor list against them.
#include "model/tensor_table.h"

#include <string>

namespace remontoir {
namespace {

struct ExpectedShape {
  int rank = 0;
  std::array<int64_t, kTensorRankMax> shape = {1, 1, 1, 1};  // innermost first
};

ExpectedShape Vector(int64_t size) { return {1, {size, 1, 1, 1}}; }
ExpectedShape Matrix(int64_t columns, int64_t rows) { return {2, {columns, rows, 1, 1}}; }
ExpectedShape Matrices(int64_t columns, int64_t rows, int64_t experts) {
  return {3, {columns, rows, experts, 1}};
}

ExpectedShape ShapeOf(TensorRole role, const ModelShape& model) {
  const int64_t width = model.width;
  const int64_t feed_forward = model.feed_forward_width;
  const int64_t queries = int64_t{model.heads} * model.key_width;
  const int64_t keys = int64_t{model.kv_heads} * model.key_width;
  const int64_t values = int64_t{model.kv_heads} * model.value_width;
  switch (role) {
    case TensorRole::kTokenEmbedding:
    case TensorRole::kOutput: return Matrix(width, model.vocabulary_size);
    case TensorRole::kRopeFactors: return Vector(model.rotary_width / 2);
    case TensorRole::kOutputNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kAttentionPostNorm:
    case TensorRole::kFeedForwardNorm:
    case TensorRole::kFeedForwardPostNorm: return Vector(width);
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm: return Vector(model.key_width);
    case TensorRole::kQuery: return Matrix(width, queries);
    case TensorRole::kKey: return Matrix(width, keys);
    case TensorRole::kValue: return Matrix(width, values);
    case TensorRole::kQueryBias: return Vector(queries);
    case TensorRole::kKeyBias: return Vector(keys);
    case TensorRole::kValueBias: return Vector(values);
    case TensorRole::kAttentionOutput:
      return Matrix(int64_t{model.heads} * model.value_width, width);
    case TensorRole::kGate:
    case TensorRole::kUp: return Matrix(width, feed_forward);
    case TensorRole::kDown: return Matrix(feed_forward, width);
    case TensorRole::kRouter: return Matrix(width, model.experts);
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp: return Matrices(width, feed_forward, model.experts);
    case TensorRole::kExpertDown: return Matrices(feed_forward, width, model.experts);
  }
  return {};
}

enum class Need : uint8_t { kRequired, kOptional, kForbidden };

Need NeedOf(TensorRole role, const ModelShape& model) {
  switch (role) {
    case TensorRole::kOutput:
    case TensorRole::kRopeFactors:
    case TensorRole::kQueryBias:
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias: return Need::kOptional;
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kDown: return model.experts == 0 ? Need::kRequired : Need::kForbidden;
    case TensorRole::kRouter:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown: return model.experts == 0 ? Need::kForbidden : Need::kRequired;
    default: return Need::kRequired;
  }
}

// Vectors are read as they are; matrices may have any type.
bool IsVector(const ExpectedShape& expected) { return expected.rank == 1; }

std::string Dimensions(const int64_t* shape, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Status CheckShape(const TensorInfo& tensor, const ExpectedShape& expected) {
  const TensorView& view = tensor.view;
  if (view.shape != expected.shape) {
    return InvalidArgument("tensor " + std::string(tensor.name) + " has shape " +
                           Dimensions(view.shape.data(), view.rank) + ", expected " +
                           Dimensions(expected.shape.data(), expected.rank));
  }
  if (IsVector(expected) && Info(view.type).block_elements != 1) {
    return InvalidArgument("tensor " + std::string(tensor.name) + " has type " +
                           std::string(Info(view.type).name) + ", expected F32, F16 or BF16");
  }
  return Status::Ok();
}

// One set of roles: the globals, or a layer.
class RoleResolver {
 public:
  RoleResolver(const ModelFile& file, const ModelShape& shape) : file_(file), shape_(shape) {}

  Status Resolve(std::span<const TensorName> names, const std::string& prefix,
                 std::array<const TensorInfo*, kTensorRoleCount>& roles) {
    for (const TensorName& entry : names) {
      const std::string name = prefix + std::string(entry.name);
      const TensorInfo* tensor = file_.FindTensor(name);
      const Need need = NeedOf(entry.role, shape_);
      if (tensor == nullptr && need == Need::kRequired) {
        return InvalidArgument("tensor " + name + " is missing");
      }
      if (tensor == nullptr) continue;
      if (need == Need::kForbidden) {
        return InvalidArgument("tensor " + name + " does not go with expert_count = " +
                               std::to_string(shape_.experts));
      }
      REM_RETURN_IF_ERROR(CheckShape(*tensor, ShapeOf(entry.role, shape_)));
      roles[static_cast<int>(entry.role)] = tensor;
      ++found_;
    }
    return Status::Ok();
  }

  size_t found() const { return found_; }

 private:
  const ModelFile& file_;
  const ModelShape& shape_;
  size_t found_ = 0;
};

Status CheckBiases(const std::array<const TensorInfo*, kTensorRoleCount>& roles, int layer,
                   bool expected) {
  for (const TensorRole role :
       {TensorRole::kQueryBias, TensorRole::kKeyBias, TensorRole::kValueBias}) {
    if ((roles[static_cast<int>(role)] != nullptr) != expected) {
      return InvalidArgument(
          "blk." + std::to_string(layer) +
          ": attn_q.bias, attn_k.bias and attn_v.bias stand in some layers only");
    }
  }
  return Status::Ok();
}

bool HasName(std::span<const TensorName> names, std::string_view name) {
  for (const TensorName& entry : names) {
    if (entry.name == name) return true;
  }
  return false;
}

// The first tensor that no role reads.
Status NameUnknownTensor(const ModelFile& file, const Family& family, const ModelShape& shape) {
  for (const TensorInfo& tensor : file.tensors()) {
    std::string_view name = tensor.name;
    if (HasName(family.globals, name)) continue;
    bool known = false;
    for (int layer = 0; layer < shape.layers && !known; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      known = name.starts_with(prefix) && HasName(family.layer, name.substr(prefix.size()));
    }
    if (!known) {
      return Unsupported("tensor " + std::string(name) + " has no place in a " +
                         std::string(family.architecture) + " model of " +
                         std::to_string(shape.layers) + " layers");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<TensorTable> ResolveTensors(const ModelFile& file, const Family& family, ModelShape& shape) {
  TensorTable table;
  RoleResolver resolver(file, shape);
  REM_RETURN_IF_ERROR(resolver.Resolve(family.globals, "", table.globals_));
  shape.tied_embedding = table.Global(TensorRole::kOutput) == nullptr;
  table.layers_.resize(shape.layers);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    REM_RETURN_IF_ERROR(resolver.Resolve(family.layer, prefix, table.layers_[layer]));
    if (layer == 0) shape.attention_bias = table.Layer(0, TensorRole::kQueryBias) != nullptr;
    REM_RETURN_IF_ERROR(CheckBiases(table.layers_[layer], layer, shape.attention_bias));
  }
  if (resolver.found() != file.tensors().size()) {
    REM_RETURN_IF_ERROR(NameUnknownTensor(file, family, shape));
  }
  return table;
}

}  // namespace remontoir
