// One pass over the operations: check, choose kernels, place 8-bit forms, make steps.
#include "backend/cpu_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "backend/activation_checks.h"
#include "backend/cpu_experts.h"
#include "backend/cpu_matmul.h"
#include "backend/fusion.h"
#include "base/check.h"

namespace remontoir {
namespace {

constexpr int64_t kActivationAlignment = 64;

class Compiler {
 public:
  Compiler(const Program& program, const CpuWeights& weights, const KvLayout& layout,
           const RoundLimits& limits, RoundState* round, CpuProgram* out)
      : program_(program),
        weights_(weights),
        layout_(layout),
        limits_(limits),
        round_(*round),
        out_(*out) {}

  Status Compile();

 private:
  // Where the newest values of an activation came from.
  struct Origin {
    Step* step = nullptr;    // null: several steps or none
    bool in_8_bits = false;  // its 8-bit form is up to date
  };

  Status CompileOp(const EmbedOp& op);
  Status CompileOp(const NormOp& op);
  Status CompileOp(const MatMulOp& op);
  Status CompileOp(const RopeIntoKvOp& op);
  Status CompileOp(const HeadMatMulOp& op);
  Status CompileOp(const CopyHeadsOp& op);
  Status CompileOp(const AttentionOp& op);
  Status CompileOp(const GatedActivationOp& op);
  Status CompileOp(const AddOp& op);
  Status CompileOp(const RouteOp& op);
  Status CompileOp(const GroupedMatMulOp& op);
  Status CompileOp(const ExpertCombineOp& op);
  Status CompileOp(const SigmoidGateOp& op);
  Status CompileOp(const GatherLogitRowsOp& op);
  Status CompileOp(const LogitsOp& op);

  Status DeclareActivations();
  void TellNextWeights();
  Result<ActivationMatrix*> Find(ActivationId id);
  Result<const float*> OptionalVector(WeightId id, int64_t width) const;
  Result<const KvLayerShape*> FindLayer(int32_t layer) const;
  Result<ProductPlan> PlanProduct(const MatMulOp::Product& product, const ActivationMatrix& in,
                                  RowSpace out_space, int32_t experts);
  void JoinGate(ProductGroup* group);
  void AddProductStep(std::unique_ptr<Step> step, StepKind kind, const ProductGroup& group);
  void AddRopeAngles();
  const RopeTable& TableFor(const RopeParams& params);
  const WindowPlan& PlanFor(int32_t window);
  void ReserveAttention(const AttentionOp& op, const KvLayerShape& shape);

  // Adds a step that writes all values of `written`, alone.
  void AddStep(std::unique_ptr<Step> step, const ActivationMatrix& written);
  void MarkWritten(const ActivationMatrix& written, Step* step);
  // Says what the newest step is; row steps need no words.
  void DescribeNewest(StepKind kind, const ProductGroup& group = {});
  void WantIn8Bits(ActivationMatrix* in, bool fine);
  // If any product reads quantised blocks.
  void WantInputOf(const ProductGroup& group, ActivationMatrix* in);
  size_t IndexOf(const ActivationMatrix& activation) const {
    return static_cast<size_t>(&activation - out_.activations.data());
  }
  Status TakeMemory();
  int64_t RowsMax(RowSpace space) const;

  const Program& program_;
  const CpuWeights& weights_;
  const KvLayout& layout_;
  const RoundLimits& limits_;
  RoundState& round_;
  CpuProgram& out_;
  std::vector<Origin> origins_;     // by ActivationId
  std::vector<bool> wants_blocks_;  // by ActivationId: some product asks for its 8-bit form
  size_t operation_ = 0;            // the one being compiled
  int32_t routed_experts_ = 0;      // of the last RouteOp
};

Status Compiler::Compile() {
  if (limits_.rows_max < 1 || limits_.sequences_max < 1 || limits_.logit_rows_max < 1 ||
      limits_.context_max < 1) {
    return InvalidArgument("round limits must be positive");
  }
  REM_RETURN_IF_ERROR(DeclareActivations());
  out_.sparse.Prepare(program_, layout_, limits_, round_.workers);
  if (out_.sparse.on()) {
    out_.steps.push_back(MakeLateSealStep(round_, layout_, out_.sparse));
    DescribeNewest(StepKind::kAttention);
  }
  AddRopeAngles();
  out_.expert_load = MakeExpertLoad(program_);
  round_.expert_load = out_.expert_load.get();
  int32_t experts_max = 0;
  for (operation_ = 0; operation_ < program_.operations.size(); ++operation_) {
    const Operation& operation = program_.operations[operation_];
    if (const auto* route = std::get_if<RouteOp>(&operation)) {
      experts_max = std::max(experts_max, route->experts);
    }
    REM_RETURN_IF_ERROR(std::visit([this](const auto& op) { return CompileOp(op); }, operation));
  }
  TellNextWeights();
  out_.descriptions.resize(out_.steps.size());
  ReserveRouting(limits_.rows_max, program_.experts_used_max, experts_max, &round_.routing);
  return TakeMemory();
}

// Steps that multiply ask for the weights of the next one while they compute.
void Compiler::TellNextWeights() {
  const Step* next = nullptr;
  for (auto step = out_.steps.rbegin(); step != out_.steps.rend(); ++step) {
    (*step)->NoteNext(next);
    if ((*step)->ReadsWeights()) next = step->get();
  }
}

Status Compiler::DeclareActivations() {
  for (const Activation& activation : program_.activations) {
    if (activation.width < 1) return InvalidArgument("activation " + activation.name + ": width");
    ActivationMatrix matrix;
    matrix.name = activation.name;
    matrix.space = activation.rows;
    matrix.width = activation.width;
    out_.activations.push_back(std::move(matrix));
  }
  origins_.resize(out_.activations.size());
  wants_blocks_.resize(out_.activations.size());
  return Status::Ok();
}

Result<ActivationMatrix*> Compiler::Find(ActivationId id) {
  const auto index = static_cast<size_t>(id);
  if (index >= out_.activations.size()) {
    return InvalidArgument("an operation without its activation");
  }
  return &out_.activations[index];
}

Result<const float*> Compiler::OptionalVector(WeightId id, int64_t width) const {
  if (id == kNoWeight) return static_cast<const float*>(nullptr);
  return weights_.Vector(id, width);
}

Result<const KvLayerShape*> Compiler::FindLayer(int32_t layer) const {
  if (layer < 0 || layer >= layout_.layer_count()) {
    return InvalidArgument("KV layer " + std::to_string(layer) + " is not in the layout");
  }
  return &layout_.layer(layer);
}

void Compiler::AddStep(std::unique_ptr<Step> step, const ActivationMatrix& written) {
  MarkWritten(written, step.get());
  out_.steps.push_back(std::move(step));
}

void Compiler::MarkWritten(const ActivationMatrix& written, Step* step) {
  origins_[IndexOf(written)] = {step, false};
}

void Compiler::DescribeNewest(StepKind kind, const ProductGroup& group) {
  out_.descriptions.resize(out_.steps.size());
  StepDescription& description = out_.descriptions.back();
  description.kind = kind;
  if (group.in != nullptr) description.rows = group.products[0].out->space;
  for (int32_t p = 0; p < group.count; ++p) {
    const ProductPlan& plan = group.products[static_cast<size_t>(p)];
    const PackedLayout& layout = plan.weight->layout;
    const bool twice = plan.fine_activations && !IsFloatFormat(layout.format);
    description.products.push_back({layout.format, layout.out_width, layout.in_width,
                                    layout.bytes() * plan.weight->experts, twice ? 2 : 1});
  }
}

// The step that made the values writes their 8-bit form too where it can. Who wants the plain form
// reads the first half of a fine one.
void Compiler::WantIn8Bits(ActivationMatrix* in, bool fine) {
  Origin& origin = origins_[IndexOf(*in)];
  wants_blocks_[IndexOf(*in)] = true;
  if (fine) in->fine = true;
  if (origin.in_8_bits) return;
  const int32_t rows_done = origin.step == nullptr ? 0 : origin.step->QuantiseOutputToo();
  if (rows_done < kAllRows) out_.steps.push_back(MakeQuantiseStep(round_, *in, rows_done));
  origin.in_8_bits = true;
}

void Compiler::WantInputOf(const ProductGroup& group, ActivationMatrix* in) {
  for (int32_t p = 0; p < group.count; ++p) {
    const ProductPlan& plan = group.products[static_cast<size_t>(p)];
    if (IsFloatFormat(plan.weight->layout.format)) continue;
    WantIn8Bits(in, plan.fine_activations);
  }
}

Status Compiler::CompileOp(const EmbedOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  if (out->space != RowSpace::kTokens) return Misfit(*out, "token rows");
  REM_ASSIGN_OR_RETURN(const EmbeddingTable* table, weights_.Embedding(op.table, out->width));
  AddStep(MakeEmbedStep(round_, *table, op.scale, *out), *out);
  return Status::Ok();
}

Status Compiler::CompileOp(const NormOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  REM_RETURN_IF_ERROR(CheckFit(*out, in->space, in->width));
  if (op.group_width < 1 || in->width % op.group_width != 0) {
    return Misfit(*in, "whole norm groups of " + std::to_string(op.group_width));
  }
  REM_ASSIGN_OR_RETURN(const float* weight, weights_.Vector(op.weight, op.group_width));
  AddStep(MakeNormStep(round_, *in, weight, op.epsilon, op.group_width, *out), *out);
  return Status::Ok();
}

Result<ProductPlan> Compiler::PlanProduct(const MatMulOp::Product& product,
                                          const ActivationMatrix& in, RowSpace out_space,
                                          int32_t experts) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(product.out));
  if (out->space != out_space) return Misfit(*out, std::string(SpaceName(out_space)) + " rows");
  if (out == &in) return Misfit(*out, "another activation than the product's input");
  ProductPlan plan;
  plan.out = out;
  plan.fine_activations = product.fine_activations;
  REM_ASSIGN_OR_RETURN(plan.weight,
                       weights_.Matrices(product.weight, experts, out->width, in.width));
  REM_ASSIGN_OR_RETURN(plan.bias, OptionalVector(product.bias, experts * out->width));
  MarkWritten(*out, nullptr);
  return plan;
}

// Takes the gate that follows into the step of its products where it can run there.
void Compiler::JoinGate(ProductGroup* group) {
  const GatedActivationOp* gate = GateOfProduct(program_, operation_);
  if (gate == nullptr || !CanGate(*group)) return;
  ++operation_;
  group->gate = GateKernel(*round_.kernels, gate->kind);
}

void Compiler::AddProductStep(std::unique_ptr<Step> step, StepKind kind,
                              const ProductGroup& group) {
  if (group.gate != nullptr) MarkWritten(*group.products[0].out, step.get());
  out_.steps.push_back(std::move(step));
  DescribeNewest(kind, group);
}

Status Compiler::CompileOp(const MatMulOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  if (op.product_count < 1 || op.product_count > kProductsMax) {
    return InvalidArgument("a product of " + in->name + " has 1 to 3 matrices");
  }
  ProductGroup group;
  group.in = in;
  group.count = op.product_count;
  for (int32_t p = 0; p < op.product_count; ++p) {
    const auto i = static_cast<size_t>(p);
    REM_ASSIGN_OR_RETURN(group.products[i], PlanProduct(op.products[i], *in, in->space, 1));
  }
  JoinGate(&group);
  WantInputOf(group, in);
  AddProductStep(MakeMatMulStep(round_, group), StepKind::kProducts, group);
  return Status::Ok();
}

Status Compiler::CompileOp(const GroupedMatMulOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  if (routed_experts_ == 0) return InvalidArgument("a grouped product before any routing");
  if (in->space == RowSpace::kLogits) return Misfit(*in, "token or expert rows");
  if (op.product_count < 1 || op.product_count > static_cast<int32_t>(op.products.size())) {
    return InvalidArgument("a grouped product of " + in->name + " has 1 or 2 matrices");
  }
  ProductGroup group;
  group.in = in;
  group.count = op.product_count;
  for (int32_t p = 0; p < op.product_count; ++p) {
    const auto i = static_cast<size_t>(p);
    if (op.products[i].fine_activations) {
      return Unsupported("fine activations of expert matrices, wanted by a product of " + in->name);
    }
    REM_ASSIGN_OR_RETURN(group.products[i],
                         PlanProduct(op.products[i], *in, RowSpace::kExperts, routed_experts_));
  }
  JoinGate(&group);
  WantInputOf(group, in);
  AddProductStep(MakeGroupedMatMulStep(round_, group), StepKind::kExpertProducts, group);
  return Status::Ok();
}

Status Compiler::CompileOp(const LogitsOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  if (in->space != RowSpace::kLogits) return Misfit(*in, "logit rows");
  out_.logits.name = "logits";
  out_.logits.space = RowSpace::kLogits;
  out_.logits.width = program_.vocabulary_size;
  ProductGroup group;
  group.in = in;
  group.count = 1;
  ProductPlan& plan = group.products[0];
  plan.out = &out_.logits;
  plan.scale = op.scale;
  plan.soft_cap = op.soft_cap;
  plan.fine_activations = op.fine_activations;
  REM_ASSIGN_OR_RETURN(plan.weight, weights_.Matrices(op.weight, 1, out_.logits.width, in->width));
  WantInputOf(group, in);
  out_.steps.push_back(MakeMatMulStep(round_, group));
  DescribeNewest(StepKind::kLogits, group);
  return Status::Ok();
}

void Compiler::AddRopeAngles() {
  for (const Operation& operation : program_.operations) {
    const auto* op = std::get_if<RopeIntoKvOp>(&operation);
    if (op != nullptr) TableFor(op->rope);
  }
  out_.steps.push_back(MakeRopeAnglesStep(round_, out_.rope_tables));
}

const RopeTable& Compiler::TableFor(const RopeParams& params) {
  for (const RopeTable& table : out_.rope_tables) {
    if (table.params().frequencies == params.frequencies &&
        table.params().magnitude == params.magnitude) {
      return table;
    }
  }
  return out_.rope_tables.emplace_back(params, limits_.rows_max);
}

Status Compiler::CompileOp(const RopeIntoKvOp& op) {
  REM_ASSIGN_OR_RETURN(const KvLayerShape* shape, FindLayer(op.layer));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * queries, Find(op.queries));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * keys, Find(op.keys));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * values, Find(op.values));
  const int64_t key_width = shape->key_width;
  REM_RETURN_IF_ERROR(CheckFit(*queries, RowSpace::kTokens, op.heads * key_width));
  REM_RETURN_IF_ERROR(CheckFit(*keys, RowSpace::kTokens, shape->kv_heads * key_width));
  REM_RETURN_IF_ERROR(
      CheckFit(*values, RowSpace::kTokens, int64_t{shape->kv_heads} * shape->value_width));
  if (op.rotary_begin < 0 ||
      op.rotary_begin + 2 * static_cast<int64_t>(op.rope.frequencies.size()) > key_width) {
    return Misfit(*keys, "heads that hold the " + std::to_string(2 * op.rope.frequencies.size()) +
                             " rotated values from " + std::to_string(op.rotary_begin) + " on");
  }
  out_.steps.push_back(
      MakeRopeIntoKvStep(round_, op, layout_, TableFor(op.rope), *queries, *keys, *values));
  MarkWritten(*queries, nullptr);
  MarkWritten(*keys, nullptr);
  return Status::Ok();
}

Status Compiler::CompileOp(const HeadMatMulOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  if (out == in) return Misfit(*out, "another activation than the product's input");
  if (out->space != in->space) return Misfit(*out, std::string(SpaceName(in->space)) + " rows");
  HeadProduct product;
  product.in = in;
  product.heads = op.heads;
  REM_ASSIGN_OR_RETURN(product.in_run, HeadRun(*in, op.heads, op.in_width));
  REM_ASSIGN_OR_RETURN(product.out_run, HeadRun(*out, op.heads, op.out_width));
  product.plan.out = out;
  product.plan.fine_activations = op.fine_activations;
  REM_ASSIGN_OR_RETURN(product.plan.weight,
                       weights_.Matrices(op.weight, op.heads, op.out_width, op.in_width));
  if (!IsFloatFormat(product.plan.weight->layout.format)) {
    if (product.in_run % kActivationBlock != 0) {
      return Misfit(*in, "heads of whole blocks of " + std::to_string(kActivationBlock));
    }
    WantIn8Bits(in, op.fine_activations);
  }
  out_.steps.push_back(MakeHeadMatMulStep(round_, product));
  ProductGroup group;
  group.in = in;
  group.count = 1;
  group.products[0] = product.plan;
  DescribeNewest(StepKind::kProducts, group);
  out_.descriptions.back().products[0].out_width *= op.heads;
  MarkWritten(*out, nullptr);
  return Status::Ok();
}

Status Compiler::CompileOp(const CopyHeadsOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  if (out == in) return Misfit(*out, "another activation than the copy's source");
  if (out->space != in->space) return Misfit(*out, std::string(SpaceName(in->space)) + " rows");
  if (op.width < 1 || op.in_begin < 0 || op.out_begin < 0) {
    return InvalidArgument("a copy of " + in->name + " has values");
  }
  REM_RETURN_IF_ERROR(HeadRun(*in, op.heads, int64_t{op.in_begin} + op.width).status());
  REM_RETURN_IF_ERROR(HeadRun(*out, op.heads, int64_t{op.out_begin} + op.width).status());
  AddStep(MakeCopyHeadsStep(round_, op, *in, *out), *out);
  return Status::Ok();
}

const WindowPlan& Compiler::PlanFor(int32_t window) {
  for (const WindowPlan& plan : out_.windows) {
    if (plan.window() == window) return plan;
  }
  return out_.windows.emplace_back(window, limits_);
}

void Compiler::ReserveAttention(const AttentionOp& op, const KvLayerShape& shape) {
  const int64_t heads_per_kv = op.heads / shape.kv_heads;
  out_.attention_scratch.ReserveWorkers(
      round_.workers, kBundleGroups * kRowGroupPositions * heads_per_kv, shape.value_width);
  const int64_t partials = (limits_.context_max + kKvPartialKeys - 1) / kKvPartialKeys + 1;
  const int64_t groups = SplitGroupsMax(round_.workers, shape.kv_heads, limits_.sequences_max);
  out_.attention_scratch.ReserveSplit(groups * partials, op.heads, shape.value_width);
}

Status Compiler::CompileOp(const AttentionOp& op) {
  REM_ASSIGN_OR_RETURN(const KvLayerShape* shape, FindLayer(op.layer));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * queries, Find(op.queries));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  if (op.heads < 1 || op.heads % shape->kv_heads != 0) {
    return InvalidArgument("layer " + std::to_string(op.layer) + ": " + std::to_string(op.heads) +
                           " query heads don't share " + std::to_string(shape->kv_heads) +
                           " KV heads evenly");
  }
  REM_RETURN_IF_ERROR(CheckFit(*queries, RowSpace::kTokens, int64_t{op.heads} * shape->key_width));
  REM_RETURN_IF_ERROR(CheckFit(*out, RowSpace::kTokens, int64_t{op.heads} * shape->value_width));
  if (out == queries) return Misfit(*out, "another activation than the queries");
  if (op.temperature_length != 0 && op.temperature_length < 2) {
    return InvalidArgument("layer " + std::to_string(op.layer) + ": temperature length " +
                           std::to_string(op.temperature_length));
  }
  if (round_.kernels->attention_partial[static_cast<size_t>(shape->type)] == nullptr) {
    return Unsupported("KV element type " + std::string(Info(shape->type).name));
  }
  AttentionSetup setup;
  setup.layout = &layout_;
  setup.plan = &PlanFor(op.window);
  setup.scratch = &out_.attention_scratch;
  setup.queries = queries;
  setup.out = out;
  REM_ASSIGN_OR_RETURN(setup.sink_logits, OptionalVector(op.sink_logits, op.heads));
  ReserveAttention(op, *shape);
  if (out_.sparse.on() && out_.sparse.sealed().has(op.layer)) {
    setup.sparse = &out_.sparse;
    out_.steps.push_back(MakeSealStep(round_, layout_, op.layer, out_.sparse));
    DescribeNewest(StepKind::kAttention);
  }
  std::vector<std::unique_ptr<Step>> steps = MakeAttentionSteps(round_, op, setup);
  MarkWritten(*out, steps.front().get());
  for (std::unique_ptr<Step>& step : steps) {
    out_.steps.push_back(std::move(step));
    DescribeNewest(StepKind::kAttention);
  }
  return Status::Ok();
}

Status Compiler::CompileOp(const GatedActivationOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * gate, Find(op.gate));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * up, Find(op.up));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  REM_RETURN_IF_ERROR(CheckFit(*up, gate->space, gate->width));
  REM_RETURN_IF_ERROR(CheckFit(*out, gate->space, gate->width));
  AddStep(MakeGateStep(round_, *gate, *up, op.kind, *out), *out);
  return Status::Ok();
}

Status Compiler::CompileOp(const AddOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * inout, Find(op.inout));
  REM_RETURN_IF_ERROR(CheckFit(*inout, in->space, in->width));
  const NormOp* norm = NormOfSum(program_, operation_);
  if (norm == nullptr) {
    AddStep(MakeAddStep(round_, *in, *inout), *inout);
    return Status::Ok();
  }
  ++operation_;
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(norm->out));
  REM_RETURN_IF_ERROR(CheckFit(*out, in->space, in->width));
  REM_ASSIGN_OR_RETURN(const float* weight, weights_.Vector(norm->weight, norm->group_width));
  MarkWritten(*inout, nullptr);
  AddStep(MakeAddNormStep(round_, *in, *inout, weight, norm->epsilon, *out), *out);
  return Status::Ok();
}

Status Compiler::CompileOp(const RouteOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * logits, Find(op.logits));
  REM_RETURN_IF_ERROR(CheckFit(*logits, RowSpace::kTokens, op.experts));
  Result<RoutingRule> rule = PlanRouting(op, program_.experts_used_max);
  if (!rule.ok()) return rule.status().WithContext("routing by " + logits->name);
  REM_ASSIGN_OR_RETURN(rule->bias, OptionalVector(op.choice_bias, op.experts));
  routed_experts_ = op.experts;
  out_.steps.push_back(MakeRouteStep(round_, *rule, *logits));
  out_.steps.push_back(MakeGroupByExpertStep(round_, op));
  return Status::Ok();
}

Status Compiler::CompileOp(const ExpertCombineOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  if (routed_experts_ == 0) return InvalidArgument("an expert sum before any routing");
  REM_RETURN_IF_ERROR(CheckFit(*in, RowSpace::kExperts, out->width));
  if (out->space != RowSpace::kTokens) return Misfit(*out, "token rows");
  AddStep(MakeExpertCombineStep(round_, *in, *out), *out);
  return Status::Ok();
}

Status Compiler::CompileOp(const SigmoidGateOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * gate, Find(op.gate));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * inout, Find(op.inout));
  REM_RETURN_IF_ERROR(CheckFit(*gate, inout->space, 1));
  if (gate == inout) return Misfit(*inout, "another activation than the gates");
  AddStep(MakeSigmoidGateStep(round_, *gate, *inout), *inout);
  return Status::Ok();
}

Status Compiler::CompileOp(const GatherLogitRowsOp& op) {
  REM_ASSIGN_OR_RETURN(ActivationMatrix * in, Find(op.in));
  REM_ASSIGN_OR_RETURN(ActivationMatrix * out, Find(op.out));
  REM_RETURN_IF_ERROR(CheckFit(*in, RowSpace::kTokens, out->width));
  if (out->space != RowSpace::kLogits) return Misfit(*out, "logit rows");
  AddStep(MakeGatherLogitRowsStep(round_, *in, *out), *out);
  return Status::Ok();
}

int64_t Compiler::RowsMax(RowSpace space) const {
  switch (space) {
    case RowSpace::kTokens: return limits_.rows_max;
    case RowSpace::kExperts:
      return int64_t{limits_.rows_max} * std::max(1, program_.experts_used_max);
    case RowSpace::kLogits: return limits_.logit_rows_max;
  }
  return 0;
}

// All activations side by side in one region: first how much, then where.
Status Compiler::TakeMemory() {
  int64_t used = 0;
  std::byte* base = nullptr;
  const auto take = [&used, &base](int64_t bytes) {
    std::byte* start = base == nullptr ? nullptr : base + used;
    used += (bytes + kActivationAlignment - 1) / kActivationAlignment * kActivationAlignment;
    return start;
  };
  const auto take_values = [&take](const ActivationMatrix& matrix, int64_t rows) {
    return reinterpret_cast<float*>(
        take(rows * matrix.width * static_cast<int64_t>(sizeof(float))));
  };
  const auto take_blocks = [&take](const ActivationMatrix& matrix, int64_t rows) {
    return reinterpret_cast<ActivationBlock*>(
        take(rows * matrix.block_stride() * static_cast<int64_t>(sizeof(ActivationBlock))));
  };
  const auto place_all = [&] {
    for (size_t i = 0; i < out_.activations.size(); ++i) {
      ActivationMatrix& matrix = out_.activations[i];
      const int64_t rows = RowsMax(matrix.space);
      matrix.values = take_values(matrix, rows);
      if (wants_blocks_[i]) matrix.blocks = take_blocks(matrix, rows);
    }
    out_.logits.values = take_values(out_.logits, RowsMax(out_.logits.space));
  };
  place_all();
  REM_ASSIGN_OR_RETURN(out_.memory, MemoryRegion::Take(used, "activations"));
  base = out_.memory.data();
  out_.activation_bytes = used + out_.attention_scratch.bytes() + out_.sparse.bytes();
  used = 0;
  place_all();
  return Status::Ok();
}

}  // namespace

Status CompileCpuProgram(const Program& program, const CpuWeights& weights, const KvLayout& layout,
                         const RoundLimits& limits, RoundState* round, CpuProgram* out) {
  return Compiler(program, weights, layout, limits, round, out).Compile();
}

}  // namespace remontoir
