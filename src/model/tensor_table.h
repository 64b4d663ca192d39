// Finds and checks every tensor that a model needs, by role and layer.
#pragma once

#include <array>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"
#include "model/family.h"
#include "model/model_shape.h"

namespace remontoir {

// Each tensor as its role has it: a vector, a matrix, or a matrix an expert. Of one that holds the
// rows of several roles each has its own; biases of all experts are one vector. Of a file's
// kKeyValueUp kKeyUp and kValueUp have the shapes and types that they get when they are loaded, and
// the whole tensor's bytes.
class TensorTable {
 public:
  // nullptr: the model has none.
  const TensorInfo* Global(TensorRole role) const { return Get(globals_, role); }
  const TensorInfo* Layer(int layer, TensorRole role) const {
    return Get(layers_[static_cast<size_t>(layer)], role);
  }

  // Calls body(TensorRole, const TensorInfo&) for the globals, then for each layer's.
  template <class Body>
  void ForEach(const Body& body) const {
    ForEachOf(globals_, body);
    for (const Roles& layer : layers_) ForEachOf(layer, body);
  }

 private:
  friend Result<TensorTable> ResolveTensors(const ModelFile&, const Family&, ModelShape&);
  using Roles = std::array<TensorInfo, kTensorRoleCount>;

  static bool IsThere(const TensorInfo& tensor) { return tensor.view.rank > 0; }
  template <class Body>
  static void ForEachOf(const Roles& roles, const Body& body) {
    for (size_t role = 0; role < roles.size(); ++role) {
      if (IsThere(roles[role])) body(static_cast<TensorRole>(role), roles[role]);
    }
  }
  static const TensorInfo* Get(const Roles& roles, TensorRole role) {
    const TensorInfo& tensor = roles[static_cast<size_t>(role)];
    return IsThere(tensor) ? &tensor : nullptr;
  }

  Roles globals_ = {};
  std::vector<Roles> layers_;
};

// Every tensor there must have the shape that its role has in this model; every tensor of the file
// must have a role (one that nobody reads would mean silently wrong output). Errors name the
// tensor, the found and the wanted shape. Fills shape.tied_embedding. The table's names and bytes
// are the file's.
Result<TensorTable> ResolveTensors(const ModelFile& file, const Family& family, ModelShape& shape);

}  // namespace remontoir
