// From an open file to a checked ModelInfo.
#include "model/model_info.h"

#include <string>

#include "model/hyperparameters.h"

namespace remontoir {

Result<ModelInfo> ReadModelInfo(const ModelFile& file, Compat compat) {
  REM_ASSIGN_OR_RETURN(const std::string_view architecture, file.GetString("general.architecture"));
  ModelInfo info;
  info.family = FindFamily(architecture, compat);
  if (info.family == nullptr) {
    std::string known;
    for (const Family* family : Families()) {
      known += (known.empty() ? "" : ", ") + std::string(family->architecture);
    }
    return Unsupported("general.architecture = \"" + std::string(architecture) +
                       "\", this build runs: " + known);
  }
  REM_ASSIGN_OR_RETURN(info.shape, ReadHyperparameters(file, *info.family));
  REM_ASSIGN_OR_RETURN(info.tensors, ResolveTensors(file, *info.family, info.shape));
  if (info.tensors.Global(TensorRole::kLongRopeFactors) != nullptr) {
    REM_RETURN_IF_ERROR(ReadLongRope(file, *info.family, info.shape).status());
  }
  return info;
}

}  // namespace remontoir
