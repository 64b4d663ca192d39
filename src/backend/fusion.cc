// Looks one operation ahead, and for the readers of an activation through the whole program.
#include "backend/fusion.h"

#include <algorithm>

namespace remontoir {
namespace {

template <class... Bodies>
struct Overloaded : Bodies... {
  using Bodies::operator()...;
};
template <class... Bodies>
Overloaded(Bodies...) -> Overloaded<Bodies...>;

// Whether anything but a gate's `up` reads the activation.
bool ReadsBesidesUp(const Operation& operation, ActivationId id) {
  return std::visit(Overloaded{
                        [](const EmbedOp&) { return false; },
                        [&](const NormOp& op) { return op.in == id; },
                        [&](const MatMulOp& op) { return op.in == id; },
                        [&](const RopeIntoKvOp& op) {
                          return op.queries == id || op.keys == id || op.values == id;
                        },
                        [&](const HeadMatMulOp& op) { return op.in == id; },
                        [&](const CopyHeadsOp& op) { return op.in == id; },
                        [&](const AttentionOp& op) { return op.queries == id; },
                        [&](const GatedActivationOp& op) { return op.gate == id; },
                        [&](const AddOp& op) { return op.in == id || op.inout == id; },
                        [&](const RouteOp& op) { return op.logits == id; },
                        [&](const GroupedMatMulOp& op) { return op.in == id; },
                        [&](const ExpertCombineOp& op) { return op.in == id; },
                        [&](const SigmoidGateOp& op) { return op.gate == id || op.inout == id; },
                        [&](const GatherLogitRowsOp& op) { return op.in == id; },
                        [&](const LogitsOp& op) { return op.in == id; },
                    },
                    operation);
}

template <class Op>
const Op* At(const Program& program, size_t index) {
  return index < program.operations.size() ? std::get_if<Op>(&program.operations[index]) : nullptr;
}

// A gate that reads `up` anywhere else than behind its own product would find nothing there.
bool EveryGateFollowsItsProduct(const Program& program, ActivationId up) {
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const auto* gate = At<GatedActivationOp>(program, i);
    if (gate == nullptr || gate->up != up) continue;
    const auto writes_up = [&](const auto* product) {
      return product != nullptr && product->product_count == 2 && product->products[1].out == up;
    };
    if (i == 0 || !(writes_up(At<MatMulOp>(program, i - 1)) ||
                    writes_up(At<GroupedMatMulOp>(program, i - 1)))) {
      return false;
    }
  }
  return true;
}

template <class Product>
const GatedActivationOp* GateBehind(const Program& program, size_t index, const Product& product) {
  const auto* gate = At<GatedActivationOp>(program, index + 1);
  if (gate == nullptr || product.product_count != 2 || gate->gate != product.products[0].out ||
      gate->up != product.products[1].out || gate->out != gate->gate) {
    return nullptr;
  }
  const bool read_elsewhere =
      std::any_of(program.operations.begin(), program.operations.end(),
                  [&](const Operation& op) { return ReadsBesidesUp(op, gate->up); });
  return read_elsewhere || !EveryGateFollowsItsProduct(program, gate->up) ? nullptr : gate;
}

}  // namespace

const GatedActivationOp* GateOfProduct(const Program& program, size_t index) {
  if (const auto* dense = At<MatMulOp>(program, index)) return GateBehind(program, index, *dense);
  if (const auto* grouped = At<GroupedMatMulOp>(program, index)) {
    return GateBehind(program, index, *grouped);
  }
  return nullptr;
}

const NormOp* NormOfSum(const Program& program, size_t index) {
  const auto* sum = At<AddOp>(program, index);
  const auto* norm = At<NormOp>(program, index + 1);
  if (sum == nullptr || norm == nullptr || norm->in != sum->inout || norm->out == norm->in) {
    return nullptr;
  }
  const int32_t width = program.activations[static_cast<size_t>(norm->in)].width;
  return norm->group_width == width ? norm : nullptr;
}

}  // namespace remontoir
