// A round's state for one sequence, and its steps tile by tile.
#include "apps/bench_attention_rounds.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "apps/bench_thread_seconds.h"
#include "base/check.h"
#include "base/worker_pool.h"

namespace remontoir {
namespace {

constexpr int64_t kLineBytes = 64;

RoundLimits LimitsOf(const CapturedPages& pages, int32_t rows_max) {
  RoundLimits limits;
  limits.rows_max = rows_max;
  limits.sequences_max = 1;
  limits.context_max = pages.tokens();
  return limits;
}

AttentionOp OpOf(const CapturedAttention& data, int32_t layer) {
  AttentionOp op{};
  op.layer = layer;
  op.heads = data.heads;
  op.scale = data.scale;
  op.soft_cap = data.soft_cap;
  op.window = data.window;
  return op;
}

Result<MemoryRegion> TakeRows(int64_t values) {
  return MemoryRegion::Take(values * static_cast<int64_t>(sizeof(float)), "rows of a bench");
}

}  // namespace

Result<CapturedPages> CapturedPages::Store(std::span<const CapturedAttention* const> layers,
                                           int32_t tokens, DType type, const KernelTable& kernels) {
  std::vector<KvLayerShape> shapes;
  for (const CapturedAttention* data : layers) {
    REM_CHECK(tokens <= data->tokens, "tokens that were captured");
    shapes.push_back({.kv_heads = data->kv_heads,
                      .key_width = data->key_width,
                      .value_width = data->value_width,
                      .type = type});
  }
  CapturedPages pages({layers.begin(), layers.end()}, tokens, KvLayout(std::move(shapes)));
  const int32_t count = (tokens + kKvPageTokens - 1) / kKvPageTokens;
  REM_ASSIGN_OR_RETURN(pages.memory_, MemoryRegion::Take(count * pages.layout_.page_bytes(),
                                                         "captured keys and values"));
  for (int32_t page = 0; page < count; ++page) pages.page_table_.push_back(KvPageId(page));
  for (int32_t layer = 0; layer < pages.layout_.layer_count(); ++layer) {
    pages.StoreLayer(layer, kernels);
  }
  return pages;
}

void CapturedPages::StoreLayer(int32_t layer, const KernelTable& kernels) {
  const CapturedAttention& data = this->layer(layer);
  const DType type = layout_.layer(layer).type;
  for (int32_t token = 0; token < tokens_; ++token) {
    std::byte* page = pages().Page(KvPageId(token / kKvPageTokens));
    for (int32_t head = 0; head < data.kv_heads; ++head) {
      const int64_t row = int64_t{token} * data.kv_heads + head;
      kernels.store_key(data.keys.data() + row * data.key_width, data.key_width, type,
                        token % kKvPageTokens, page + layout_.key_offset(layer, head));
      kernels.store_value(data.values.data() + row * data.value_width, data.value_width, type,
                          token % kKvPageTokens, page + layout_.value_offset(layer, head));
    }
  }
}

AttentionRounds::AttentionRounds(const CapturedPages& pages, int32_t rows_max,
                                 const KernelTable& kernels)
    : pages_(pages),
      limits_(LimitsOf(pages, rows_max)),
      plan_(0, limits_),
      cu_q_(2),
      page_table_begin_({0, static_cast<int32_t>(pages.page_table().size())}),
      seals_(1),
      cu_k_(2) {
  round_.kernels = &kernels;
  round_.kv_pages = pages.pages();
}

Result<std::unique_ptr<AttentionRounds>> AttentionRounds::Make(const CapturedPages& pages,
                                                               SparseAttentionOptions sparse,
                                                               int32_t rows_max,
                                                               const KernelTable& kernels) {
  auto rounds = std::unique_ptr<AttentionRounds>(new AttentionRounds(pages, rows_max, kernels));
  REM_RETURN_IF_ERROR(rounds->Prepare(sparse));
  return rounds;
}

Status AttentionRounds::Prepare(SparseAttentionOptions sparse) {
  Program program;
  int64_t widest_queries = 0;
  int64_t widest_out = 0;
  const KvLayout& layout = pages_.layout();
  for (int32_t i = 0; i < layout.layer_count(); ++i) {
    const CapturedAttention& data = pages_.layer(i);
    if (data.window != 0) return Unsupported("bench attention: a layer with a sliding window");
    program.operations.emplace_back(OpOf(data, i));
    widest_queries = std::max(widest_queries, int64_t{data.heads} * data.key_width);
    widest_out = std::max(widest_out, int64_t{data.heads} * data.value_width);
    scratch_.ReserveWorkers(1, int64_t{kBundleGroups} * kRowGroupPositions * data.heads_per_kv(),
                            data.value_width);
    const int64_t partials = (limits_.context_max + kKvPartialKeys - 1) / kKvPartialKeys + 1;
    scratch_.ReserveSplit(SplitGroupsMax(1, data.kv_heads, 1) * partials, data.heads,
                          data.value_width);
  }
  REM_ASSIGN_OR_RETURN(queries_, TakeRows(limits_.rows_max * widest_queries));
  REM_ASSIGN_OR_RETURN(out_, TakeRows(limits_.rows_max * widest_out));
  queries_matrix_.values = reinterpret_cast<float*>(queries_.data());
  out_matrix_.values = reinterpret_cast<float*>(out_.data());
  RoundLimits limits = limits_;
  limits.sparse = sparse;
  sparse_.Prepare(program, layout, limits, 1);
  if (sparse_.on()) {
    const int32_t segments = limits.context_max / kSegmentKeys + 1;
    const int64_t bytes = sparse_.sealed().segment_bytes();
    REM_CHECK(bytes % kLineBytes == 0, "segments at whole lines");
    REM_ASSIGN_OR_RETURN(sealed_memory_,
                         MemoryRegion::Take(segments * bytes, "captured sealed segments"));
    WorkerPool pool(1);
    sealed_memory_.Prefault(pool);
    round_.sealed = {sealed_memory_.data(), bytes};
    for (int32_t s = 0; s < segments; ++s) sealed_table_.push_back(SealedSegmentId(s));
    sealed_table_begin_ = {0, segments};
  }
  for (const Operation& operation : program.operations) {
    const auto& op = std::get<AttentionOp>(operation);
    CompileLayer(op.layer, op);
  }
  return Status::Ok();
}

void AttentionRounds::CompileLayer(int32_t layer, const AttentionOp& op) {
  AttentionSetup setup;
  setup.layout = &pages_.layout();
  setup.plan = &plan_;
  setup.scratch = &scratch_;
  setup.queries = &queries_matrix_;
  setup.out = &out_matrix_;
  Layer compiled;
  if (sparse_.on() && sparse_.sealed().has(layer)) {
    setup.sparse = &sparse_;
    compiled.seal = MakeSealStep(round_, pages_.layout(), layer, sparse_);
  }
  compiled.attend = MakeAttentionSteps(round_, op, setup);
  layers_.push_back(std::move(compiled));
}

void AttentionRounds::SetRound(int32_t first, int32_t rows) {
  REM_CHECK(first >= 0 && first + rows <= pages_.tokens(), "rows that were captured");
  cu_q_[1] = rows;
  cu_k_[1] = first + rows;
  RoundInputs& inputs = round_.inputs;
  inputs.cu_seqlens_q = cu_q_;
  inputs.cu_seqlens_k = cu_k_;
  inputs.page_table = pages_.page_table();
  inputs.page_table_begin = page_table_begin_;
  inputs.sealed_table = sealed_table_;
  inputs.sealed_table_begin = sealed_table_begin_;
  inputs.seals = {};
  round_.rows[static_cast<size_t>(RowSpace::kTokens)] = rows;
}

double AttentionRounds::RunSteps(std::span<Step* const> steps) {
  const double start = ThreadSeconds();
  for (Step* step : steps) {
    const int32_t tiles = step->Begin();
    for (int32_t tile = 0; tile < tiles; ++tile) step->RunTile(tile, 0);
  }
  return ThreadSeconds() - start;
}

double AttentionRounds::SealUntil(int32_t layer, int32_t position) {
  Layer& compiled = layers_[static_cast<size_t>(layer)];
  if (compiled.seal == nullptr) return 0;
  const SealedLayout& sealed = sparse_.sealed();
  const int32_t layers = sealed.sealed_layers();
  const int32_t due = SealsDue(position, layers);
  const int32_t segments = (due - sealed.seal_index(layer) + layers - 1) / layers;
  if (segments <= compiled.sealed_segments) return 0;
  // A round that brings all keys behind those that are sealed, so that the layer's step seals them.
  const int32_t first = SegmentEnd(compiled.sealed_segments - 1);
  SetRound(first, position - first);
  seals_[0] = {compiled.sealed_segments * layers, due};
  round_.inputs.seals = seals_;
  Step* const step = compiled.seal.get();
  const double seconds = RunSteps({&step, 1});
  compiled.sealed_segments = segments;
  return seconds;
}

RoundSeconds AttentionRounds::Run(int32_t layer, int32_t first, int32_t rows) {
  Layer& compiled = layers_[static_cast<size_t>(layer)];
  const CapturedAttention& data = pages_.layer(layer);
  queries_matrix_.width = int64_t{data.heads} * data.key_width;
  out_matrix_.width = int64_t{data.heads} * data.value_width;
  // Queries are as warm as the step before attention leaves them.
  std::copy_n(data.queries.data() + first * queries_matrix_.width, rows * queries_matrix_.width,
              queries_matrix_.values);
  RoundSeconds seconds;
  seconds.seal = SealUntil(layer, first + rows);
  REM_CHECK(rows <= limits_.rows_max, "rows of a round");
  SetRound(first, rows);
  plan_.Build(round_.inputs);
  sparse_.Begin(1);
  std::vector<Step*> steps;
  for (const std::unique_ptr<Step>& step : compiled.attend) steps.push_back(step.get());
  seconds.attend = RunSteps(steps);
  out_count_ = static_cast<size_t>(rows * out_matrix_.width);
  return seconds;
}

void AttentionRounds::Unseal() {
  for (Layer& layer : layers_) layer.sealed_segments = 0;
}

}  // namespace remontoir
