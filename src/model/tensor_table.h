// Finds and checks every tensor that a model needs, by role and layer.
#pragma once

#include <array>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"
#include "model/family.h"
#include "model/model_shape.h"

namespace remontoir {

class TensorTable {
 public:
  // nullptr: the model has none.
  const TensorInfo* Global(TensorRole role) const { return globals_[static_cast<int>(role)]; }
  const TensorInfo* Layer(int layer, TensorRole role) const {
    return layers_[layer][static_cast<int>(role)];
  }

 private:
  friend Result<TensorTable> ResolveTensors(const ModelFile&, const Family&, ModelShape&);
  using Roles = std::array<const TensorInfo*, kTensorRoleCount>;
  Roles globals_ = {};
  std::vector<Roles> layers_;
};

// Every tensor there must have the shape that its role has in this model; every tensor of the file
// must have a role (one that nobody reads would mean silently wrong output). Errors name the
// tensor, the found and the wanted shape. Fills shape.tied_embedding and shape.attention_bias. The
// table points into `file`.
Result<TensorTable> ResolveTensors(const ModelFile& file, const Family& family, ModelShape& shape);

}  // namespace remontoir
