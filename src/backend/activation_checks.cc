// The wording of what doesn't fit.
#include "backend/activation_checks.h"

namespace remontoir {

const char* SpaceName(RowSpace space) {
  switch (space) {
    case RowSpace::kTokens: return "token";
    case RowSpace::kExperts: return "expert";
    case RowSpace::kLogits: return "logit";
  }
  return "unknown";
}

Status Misfit(const ActivationMatrix& activation, const std::string& wanted) {
  return InvalidArgument("activation " + activation.name + ": " + SpaceName(activation.space) +
                         " rows of " + std::to_string(activation.width) + " values, wanted " +
                         wanted);
}

Status CheckFit(const ActivationMatrix& activation, RowSpace space, int64_t width) {
  if (activation.space == space && activation.width == width) return Status::Ok();
  return Misfit(activation, std::string(SpaceName(space)) + " rows of " + std::to_string(width));
}

Result<int64_t> HeadRun(const ActivationMatrix& activation, int32_t heads, int64_t width) {
  if (heads < 1 || activation.width % heads != 0 || activation.width / heads < width) {
    return Misfit(activation, std::to_string(heads) + " heads of at least " +
                                  std::to_string(width) + " values");
  }
  return activation.width / heads;
}

}  // namespace remontoir
