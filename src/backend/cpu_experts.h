// Steps of a mixture of experts: routing, grouping by expert, and the weighted sum at the end.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu_step.h"
#include "base/status.h"
#include "kernels/routing.h"

namespace remontoir {

// Makes room for routing `tokens_max` rows to `experts_used_max` of at most `experts_max`.
void ReserveRouting(int32_t tokens_max, int32_t experts_used_max, int32_t experts_max,
                    RoutingState* routing);

// The rule of an operation, whose numbers must fit together, without its bias.
Result<RoutingRule> PlanRouting(const RouteOp& op, int32_t experts_used_max);

// Chooses experts row by row.
std::unique_ptr<Step> MakeRouteStep(RoundState& round, const RoutingRule& rule,
                                    const ActivationMatrix& logits);
// Then orders the chosen (token, expert) pairs by expert, tokens ascending: the kExperts rows.
// Counts their rows in round.expert_load.
std::unique_ptr<Step> MakeGroupByExpertStep(RoundState& round, const RouteOp& op);

std::unique_ptr<Step> MakeExpertCombineStep(const RoundState& round, const ActivationMatrix& in,
                                            const ActivationMatrix& out);

}  // namespace remontoir
