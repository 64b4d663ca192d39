// Expected shapes by role, and the check of a file's tensor list against them.
#include "model/tensor_table.h"

#include <algorithm>
#include <optional>
#include <string>

namespace remontoir {
namespace {

using Roles = std::array<TensorInfo, kTensorRoleCount>;

size_t IndexOf(TensorRole role) { return static_cast<size_t>(role); }
bool IsThere(const Roles& roles, TensorRole role) { return roles[IndexOf(role)].view.rank > 0; }

struct ExpectedShape {
  int rank = 0;
  std::array<int64_t, kTensorRankMax> shape = {1, 1, 1, 1};  // innermost first
  bool is_vector = false;  // read as one in the file's order; matrices are packed
};

ExpectedShape Vector(int64_t size) { return {1, {size, 1, 1, 1}, true}; }
// A vector an expert.
ExpectedShape Vectors(int64_t size, int64_t experts) { return {2, {size, experts, 1, 1}, true}; }
ExpectedShape Matrix(int64_t columns, int64_t rows) { return {2, {columns, rows, 1, 1}}; }
// A matrix of one row, which files write as a vector.
ExpectedShape Row(int64_t columns) { return {1, {columns, 1, 1, 1}}; }
ExpectedShape Matrices(int64_t columns, int64_t rows, int64_t experts) {
  return {3, {columns, rows, experts, 1}};
}

// Values of all heads.
int64_t Queries(const ModelShape& model) { return int64_t{model.heads} * model.QueryWidth(); }
int64_t Keys(const ModelShape& model) { return int64_t{model.kv_heads} * model.key_width; }
int64_t Values(const ModelShape& model) { return int64_t{model.kv_heads} * model.value_width; }
int64_t Attended(const ModelShape& model) { return int64_t{model.heads} * model.AttendedWidth(); }

// Of a head's own key, what is made from the latent.
int64_t PlainKeyWidth(const ModelShape& model) {
  return model.latent.key_width - model.rotary_width;
}

ExpectedShape LatentShapeOf(TensorRole role, const ModelShape& model) {
  const LatentAttention& latent = model.latent;
  switch (role) {
    case TensorRole::kQueryDown: return Matrix(model.width, latent.query_rank);
    case TensorRole::kQueryDownNorm: return Vector(latent.query_rank);
    case TensorRole::kQueryUp: return Matrix(latent.query_rank, Queries(model));
    case TensorRole::kKeyValueDown: return Matrix(model.width, latent.rank + model.rotary_width);
    case TensorRole::kKeyValueDownNorm: return Vector(latent.rank);
    case TensorRole::kKeyUp: return Matrices(PlainKeyWidth(model), latent.rank, model.heads);
    case TensorRole::kValueUp: return Matrices(latent.rank, latent.value_width, model.heads);
    default:  // kKeyValueUp
      return Matrix(latent.rank, model.heads * (PlainKeyWidth(model) + latent.value_width));
  }
}

ExpectedShape AttentionShapeOf(TensorRole role, const ModelShape& model) {
  const int64_t width = model.width;
  switch (role) {
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm: return Vector(model.key_width);
    case TensorRole::kQueryKeyValue:
      return Matrix(width, Queries(model) + Keys(model) + Values(model));
    case TensorRole::kQuery: return Matrix(width, Queries(model));
    case TensorRole::kKey: return Matrix(width, Keys(model));
    case TensorRole::kValue: return Matrix(width, Values(model));
    case TensorRole::kQueryBias: return Vector(Queries(model));
    case TensorRole::kKeyBias: return Vector(Keys(model));
    case TensorRole::kValueBias: return Vector(Values(model));
    case TensorRole::kSinkLogits: return Vector(model.heads);
    case TensorRole::kAttentionOutput: return Matrix(Attended(model), width);
    default: return Vector(width);  // norms of the stream, biases of what joins it
  }
}

ExpectedShape FeedForwardShapeOf(TensorRole role, const ModelShape& model) {
  const int64_t width = model.width;
  const int64_t dense = model.feed_forward_width;
  const int64_t expert = model.expert_width;
  const int64_t shared = model.shared_expert_width;
  const int64_t experts = model.experts;
  switch (role) {
    case TensorRole::kGateUp: return Matrix(width, 2 * dense);
    case TensorRole::kGate:
    case TensorRole::kUp: return Matrix(width, dense);
    case TensorRole::kDown: return Matrix(dense, width);
    case TensorRole::kRouter: return Matrix(width, experts);
    case TensorRole::kRouterBias:
    case TensorRole::kChoiceBias: return Vector(experts);
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp: return Matrices(width, expert, experts);
    case TensorRole::kExpertDown: return Matrices(expert, width, experts);
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUpBias: return Vectors(expert, experts);
    case TensorRole::kExpertDownBias: return Vectors(width, experts);
    case TensorRole::kSharedExpertRouter: return Row(width);
    case TensorRole::kSharedExpertGate:
    case TensorRole::kSharedExpertUp: return Matrix(width, shared);
    case TensorRole::kSharedExpertDown: return Matrix(shared, width);
    default: return Vector(width);  // norms
  }
}

ExpectedShape ShapeOf(TensorRole role, const ModelShape& model) {
  switch (role) {
    case TensorRole::kTokenEmbedding:
    case TensorRole::kOutput: return Matrix(model.width, model.vocabulary_size);
    case TensorRole::kLongRopeFactors:
    case TensorRole::kShortRopeFactors:
    case TensorRole::kRopeFactors: return Vector(model.rotary_width / 2);
    case TensorRole::kOutputNorm: return Vector(model.width);
    default: break;
  }
  if (role >= TensorRole::kQueryDown && role <= TensorRole::kValueUp) {
    return LatentShapeOf(role, model);
  }
  return role < TensorRole::kFeedForwardNorm ? AttentionShapeOf(role, model)
                                             : FeedForwardShapeOf(role, model);
}

// Whether the layer has the block that a tensor of this role belongs to.
bool HasPlace(TensorRole role, const ModelShape& model, int layer) {
  switch (role) {
    case TensorRole::kQuery: return model.latent.query_rank == 0;
    case TensorRole::kQueryDown:
    case TensorRole::kQueryDownNorm:
    case TensorRole::kQueryUp: return model.latent.query_rank > 0;
    case TensorRole::kKeyValueUp: return model.latent.fused_up;
    case TensorRole::kKeyUp:
    case TensorRole::kValueUp: return !model.latent.fused_up;
    case TensorRole::kChoiceBias:
      return model.HasExperts(layer) && model.router_score == RouterScore::kSigmoid;
    case TensorRole::kGateUp:
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kDown: return model.HasDense(layer);
    case TensorRole::kRouter:
    case TensorRole::kRouterBias:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown:
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUpBias:
    case TensorRole::kExpertDownBias: return model.HasExperts(layer);
    case TensorRole::kSharedExpertRouter:
    case TensorRole::kSharedExpertGate:
    case TensorRole::kSharedExpertUp:
    case TensorRole::kSharedExpertDown: return model.HasSharedExpert(layer);
    default: return true;
  }
}

// What a tensor without a place contradicts.
std::string WhatForbids(TensorRole role, const ModelShape& model, int layer) {
  switch (role) {
    case TensorRole::kQuery:
    case TensorRole::kQueryDown:
    case TensorRole::kQueryDownNorm:
    case TensorRole::kQueryUp:
      return "attention.q_lora_rank = " + std::to_string(model.latent.query_rank);
    case TensorRole::kKeyValueUp: return "attention.key_length_mla";
    case TensorRole::kKeyUp:
    case TensorRole::kValueUp: return "a file without attention.key_length_mla";
    case TensorRole::kChoiceBias:
      if (model.HasExperts(layer)) return "expert_gating_func = 1, expected 2";
      break;
    default: break;
  }
  const std::string experts = "expert_count = " + std::to_string(model.experts);
  return model.leading_dense_layers == 0
             ? experts
             : experts +
                   " and leading_dense_block_count = " + std::to_string(model.leading_dense_layers);
}

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
  if (expected.is_vector && Info(view.type).block_elements != 1) {
    return InvalidArgument("tensor " + std::string(tensor.name) + " has type " +
                           std::string(Info(view.type).name) + ", expected F32, F16 or BF16");
  }
  return Status::Ok();
}

// --- From the file's tensors to those of the roles ---

// Rows first ... first + count of a matrix.
TensorInfo RowsOf(const TensorInfo& matrix, int64_t first, int64_t count) {
  const int64_t row_bytes = RowBytes(matrix.view.type, matrix.view.columns());
  TensorInfo rows = matrix;
  rows.view.rank = 2;
  rows.view.shape = {matrix.view.columns(), count, 1, 1};
  rows.view.size_bytes = count * row_bytes;
  if (matrix.view.data != nullptr) rows.view.data = matrix.view.data + first * row_bytes;
  rows.file_offset += static_cast<uint64_t>(first * row_bytes);
  return rows;
}

// Puts a tensor whose shape was checked where its role, or the roles of its rows, stand.
void Place(const TensorInfo& tensor, TensorRole role, const ModelShape& model, Roles& roles) {
  if (role == TensorRole::kQueryKeyValue) {
    roles[IndexOf(TensorRole::kQuery)] = RowsOf(tensor, 0, Queries(model));
    roles[IndexOf(TensorRole::kKey)] = RowsOf(tensor, Queries(model), Keys(model));
    roles[IndexOf(TensorRole::kValue)] =
        RowsOf(tensor, Queries(model) + Keys(model), Values(model));
    return;
  }
  if (role == TensorRole::kGateUp) {
    const int64_t width = model.feed_forward_width;
    roles[IndexOf(TensorRole::kGate)] = RowsOf(tensor, 0, width);
    roles[IndexOf(TensorRole::kUp)] = RowsOf(tensor, width, width);
    return;
  }
  if (role == TensorRole::kKeyValueUp) {
    for (const TensorRole part : {TensorRole::kKeyUp, TensorRole::kValueUp}) {
      TensorInfo& half = roles[IndexOf(part)];
      half = tensor;
      half.view.rank = 3;
      half.view.shape = ShapeOf(part, model).shape;
    }
    // A matrix that is transposed has no rows in the file's blocks any more.
    roles[IndexOf(TensorRole::kKeyUp)].view.type = DType::kF32;
    return;
  }
  const ExpectedShape expected = ShapeOf(role, model);
  TensorInfo& placed = roles[IndexOf(role)];
  placed = tensor;
  if (expected.is_vector) {
    placed.view.rank = 1;
    placed.view.shape = {tensor.view.columns() * tensor.view.rows(), 1, 1, 1};
  } else {
    placed.view.rank = std::max(2, expected.rank);
  }
}

// One set of roles: the globals, or a layer.
class RoleResolver {
 public:
  RoleResolver(const ModelFile& file, const ModelShape& shape) : file_(file), shape_(shape) {}

  // `layer` is 0 for the globals.
  Status Resolve(std::span<const TensorName> names, const std::string& prefix, int layer,
                 Roles& roles) {
    // What is there and has no place says more about the file than what it then lacks.
    for (const TensorName& entry : names) {
      const TensorInfo* tensor = Find(entry, prefix);
      if (tensor == nullptr || HasPlace(entry.role, shape_, layer)) continue;
      return InvalidArgument("tensor " + std::string(tensor->name) + " does not go with " +
                             WhatForbids(entry.role, shape_, layer));
    }
    for (const TensorName& entry : names) {
      if (!HasPlace(entry.role, shape_, layer)) continue;
      const TensorInfo* tensor = Find(entry, prefix);
      REM_RETURN_IF_ERROR(
          CheckPresence(entry, prefix + std::string(entry.name), tensor != nullptr));
      REM_RETURN_IF_ERROR(CheckOneName(entry, prefix));
      if (tensor == nullptr) continue;
      REM_RETURN_IF_ERROR(CheckShape(*tensor, ShapeOf(entry.role, shape_)));
      Place(*tensor, entry.role, shape_, roles);
      ++found_;
    }
    return Status::Ok();
  }

  size_t found() const { return found_; }

 private:
  // Under either of its names; nullptr: the file has none.
  const TensorInfo* Find(const TensorName& entry, const std::string& prefix) const {
    const TensorInfo* tensor = file_.FindTensor(prefix + std::string(entry.name));
    if (tensor != nullptr || entry.other_name.empty()) return tensor;
    return file_.FindTensor(prefix + std::string(entry.other_name));
  }

  Status CheckOneName(const TensorName& entry, const std::string& prefix) const {
    if (entry.other_name.empty()) return Status::Ok();
    const std::string name = prefix + std::string(entry.name);
    const std::string other = prefix + std::string(entry.other_name);
    if (file_.FindTensor(name) == nullptr || file_.FindTensor(other) == nullptr) {
      return Status::Ok();
    }
    return InvalidArgument("tensor " + other + " does not go with " + name);
  }

  Status CheckPresence(const TensorName& entry, const std::string& name, bool there) {
    if (entry.need == Need::kRequired) {
      return there ? Status::Ok() : InvalidArgument("tensor " + name + " is missing");
    }
    std::optional<bool>& expected = expected_[IndexOf(entry.role)];
    if (!expected) expected = there;
    if (*expected == there) return Status::Ok();
    return InvalidArgument("tensor " + name + (there ? " is there" : " is missing") +
                           ", expected it in all layers or in none");
  }

  const ModelFile& file_;
  const ModelShape& shape_;
  std::array<std::optional<bool>, kTensorRoleCount> expected_ = {};  // of optional ones
  size_t found_ = 0;
};

// Biases of queries, keys and values come together.
Status CheckBiases(const Family& family, const Roles& roles, int layer) {
  constexpr std::array<TensorRole, 3> kBiases = {TensorRole::kQueryBias, TensorRole::kKeyBias,
                                                 TensorRole::kValueBias};
  std::string missing;
  size_t count = 0;
  for (const TensorRole role : kBiases) {
    if (IsThere(roles, role)) {
      ++count;
    } else if (missing.empty()) {
      missing = NameOf(family.layer, role);
    }
  }
  if (count == 0 || count == kBiases.size()) return Status::Ok();
  return InvalidArgument("tensor blk." + std::to_string(layer) + "." + missing +
                         " is missing, expected biases of queries, keys and values or none");
}

// Rotary factors for long contexts and for short ones come together.
Status CheckRopeFactors(const Family& family, const TensorTable& table) {
  const bool has_long = table.Global(TensorRole::kLongRopeFactors) != nullptr;
  const bool has_short = table.Global(TensorRole::kShortRopeFactors) != nullptr;
  if (has_long == has_short) return Status::Ok();
  const TensorRole missing =
      has_long ? TensorRole::kShortRopeFactors : TensorRole::kLongRopeFactors;
  return InvalidArgument("tensor " + std::string(NameOf(family.globals, missing)) +
                         " is missing, expected factors for long and short contexts or none");
}

bool HasName(std::span<const TensorName> names, std::string_view name) {
  for (const TensorName& entry : names) {
    if (entry.name == name || entry.other_name == name) return true;
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
  REM_RETURN_IF_ERROR(resolver.Resolve(family.globals, "", 0, table.globals_));
  REM_RETURN_IF_ERROR(CheckRopeFactors(family, table));
  shape.tied_embedding = table.Global(TensorRole::kOutput) == nullptr;
  table.layers_.resize(static_cast<size_t>(shape.layers));
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    Roles& roles = table.layers_[static_cast<size_t>(layer)];
    REM_RETURN_IF_ERROR(resolver.Resolve(family.layer, prefix, layer, roles));
    REM_RETURN_IF_ERROR(CheckBiases(family, roles, layer));
  }
  if (resolver.found() != file.tensors().size()) {
    REM_RETURN_IF_ERROR(NameUnknownTensor(file, family, shape));
  }
  return table;
}

}  // namespace remontoir
