// Names of the policies.
#include "scheduler/policy.h"

namespace remontoir {

std::string_view Name(SchedulingPolicy policy) {
  switch (policy) {
    case SchedulingPolicy::kAdaptive: return "adaptive";
    case SchedulingPolicy::kFixed: return "fixed";
    case SchedulingPolicy::kImmediate: return "immediate";
    case SchedulingPolicy::kLegacy: break;
  }
  return "legacy";
}

}  // namespace remontoir
