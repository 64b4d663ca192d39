// Routing is a row's own affair; grouping is a stable counting sort; sums go by rank.
#include "backend/cpu_experts.h"

#include <algorithm>
#include <string>

#include "backend/cpu_row_steps.h"

namespace remontoir {
namespace {

constexpr int32_t kRouteTileRows = 32;

class RouteStep final : public Step {
 public:
  RouteStep(RoundState& round, const RoutingRule& rule, const ActivationMatrix& logits)
      : round_(round), rule_(rule), logits_(logits) {}

  int32_t Begin() override {
    return (round_.Rows(RowSpace::kTokens) + kRouteTileRows - 1) / kRouteTileRows;
  }

  void RunTile(int32_t tile, int32_t) override {
    RoutingState& routing = round_.routing;
    const int32_t end = std::min((tile + 1) * kRouteTileRows, round_.Rows(RowSpace::kTokens));
    for (int32_t row = tile * kRouteTileRows; row < end; ++row) {
      const int64_t first = int64_t{row} * rule_.used;
      RouteRow(rule_, logits_.Row(row), routing.chosen.data() + first,
               routing.weights.data() + first);
    }
  }

 private:
  RoundState& round_;
  const RoutingRule rule_;
  const ActivationMatrix& logits_;
};

class GroupByExpertStep final : public Step {
 public:
  GroupByExpertStep(RoundState& round, const RouteOp& op)
      : round_(round),
        experts_(op.experts),
        used_(op.experts_used),
        place_(round.expert_load->PlaceOf(op.layer)) {}

  // Serial work of a microsecond or so: done here, no tile is needed.
  int32_t Begin() override {
    RoutingState& routing = round_.routing;
    const int32_t pairs = round_.Rows(RowSpace::kTokens) * used_;
    round_.rows[static_cast<size_t>(RowSpace::kExperts)] = pairs;
    routing.used = used_;
    routing.first_row.assign(static_cast<size_t>(experts_) + 1, 0);
    for (int32_t i = 0; i < pairs; ++i) {
      ++routing.first_row[static_cast<size_t>(routing.chosen[static_cast<size_t>(i)])];
    }
    CountsToStarts(&routing);
    for (int32_t i = 0; i < pairs; ++i) {
      const auto expert = static_cast<size_t>(routing.chosen[static_cast<size_t>(i)]);
      const int32_t row = routing.first_row[expert]++;
      routing.expert_row[static_cast<size_t>(i)] = row;
      routing.token_of_row[static_cast<size_t>(row)] = i / used_;
    }
    // Each start has moved to the next expert's: move them back.
    std::copy_backward(routing.first_row.begin(), routing.first_row.end() - 1,
                       routing.first_row.end());
    routing.first_row[0] = 0;
    return 0;
  }

  void RunTile(int32_t, int32_t) override {}

 private:
  void CountsToStarts(RoutingState* routing) const {
    routing->active.clear();
    int32_t start = 0;
    for (int32_t expert = 0; expert < experts_; ++expert) {
      int32_t& entry = routing->first_row[static_cast<size_t>(expert)];
      const int32_t count = entry;
      if (count > 0) {
        routing->active.push_back(expert);
        round_.expert_load->CountRows(place_, expert, count);
      }
      entry = start;
      start += count;
    }
    round_.expert_load->experts_read.Add(static_cast<int64_t>(routing->active.size()));
  }

  RoundState& round_;
  const int32_t experts_;
  const int32_t used_;
  const int32_t place_;
};

class ExpertCombineStep final : public RowStep {
 public:
  ExpertCombineStep(const RoundState& round, const ActivationMatrix& in,
                    const ActivationMatrix& out)
      : RowStep(round, out), in_(in) {}

 private:
  void RunRow(int32_t row) override {
    const RoutingState& routing = round().routing;
    float* values = out().Row(row);
    std::fill_n(values, out().width, 0.0f);
    for (int32_t rank = 0; rank < routing.used; ++rank) {
      const auto pair =
          static_cast<size_t>(row) * static_cast<size_t>(routing.used) + static_cast<size_t>(rank);
      kernels().add_scaled(in_.Row(routing.expert_row[pair]), routing.weights[pair], out().width,
                           values);
    }
  }

  const ActivationMatrix& in_;
};

}  // namespace

void ReserveRouting(int32_t tokens_max, int32_t experts_used_max, int32_t experts_max,
                    RoutingState* routing) {
  const size_t pairs = static_cast<size_t>(tokens_max) * static_cast<size_t>(experts_used_max);
  routing->chosen.resize(pairs);
  routing->weights.resize(pairs);
  routing->expert_row.resize(pairs);
  routing->token_of_row.resize(pairs);
  routing->first_row.reserve(static_cast<size_t>(experts_max) + 1);
  routing->active.reserve(static_cast<size_t>(experts_max));
}

Result<RoutingRule> PlanRouting(const RouteOp& op, int32_t experts_used_max) {
  if (op.experts_used < 1 || op.experts_used > op.experts || op.experts_used > experts_used_max) {
    return InvalidArgument(std::to_string(op.experts_used) + " of " + std::to_string(op.experts) +
                           " experts, at most " + std::to_string(experts_used_max) + " planned");
  }
  if (op.groups < 1 || op.groups > kExpertGroupsMax || op.experts % op.groups != 0 ||
      op.groups_used < 1 || op.groups_used > op.groups ||
      op.experts / op.groups * op.groups_used < op.experts_used) {
    return InvalidArgument(std::to_string(op.experts_used) + " experts of " +
                           std::to_string(op.groups_used) + " of " + std::to_string(op.groups) +
                           " groups");
  }
  if (op.choice_bias != kNoWeight && op.score != RouterScore::kSigmoid) {
    return InvalidArgument("a bias of the choice goes with sigmoids");
  }
  return RoutingRule{.experts = op.experts,
                     .used = op.experts_used,
                     .renormalise = op.renormalise,
                     .score = op.score,
                     .soft_cap = op.soft_cap,
                     .scale = op.weight_scale,
                     .groups = op.groups,
                     .groups_used = op.groups_used};
}

std::unique_ptr<Step> MakeRouteStep(RoundState& round, const RoutingRule& rule,
                                    const ActivationMatrix& logits) {
  return std::make_unique<RouteStep>(round, rule, logits);
}

std::unique_ptr<Step> MakeGroupByExpertStep(RoundState& round, const RouteOp& op) {
  return std::make_unique<GroupByExpertStep>(round, op);
}

std::unique_ptr<Step> MakeExpertCombineStep(const RoundState& round, const ActivationMatrix& in,
                                            const ActivationMatrix& out) {
  return std::make_unique<ExpertCombineStep>(round, in, out);
}

}  // namespace remontoir
