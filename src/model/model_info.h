// What a model file holds, checked as far as it can be without reading its weights.
#pragma once

#include "base/status.h"
#include "formats/model_file.h"
#include "model/family.h"
#include "model/model_shape.h"
#include "model/tensor_table.h"

namespace remontoir {

struct ModelInfo {
  const Family* family = nullptr;
  ModelShape shape;
  TensorTable tensors;  // points into the file
};

// general.architecture, every hyperparameter, every tensor's place and shape. kUnsupported: a
// well-formed file of an architecture that this build can't run.
Result<ModelInfo> ReadModelInfo(const ModelFile& file, Compat compat = Compat::kAuthors);

}  // namespace remontoir
