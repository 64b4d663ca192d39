// The CPU back end: holds weights, KV pages and the compiled program, and runs rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu_program.h"
#include "backend/cpu_step.h"
#include "backend/cpu_weights.h"
#include "backend/kv_copy.h"
#include "backend/kv_memory.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/worker_pool.h"

namespace remontoir {
namespace {

constexpr int32_t kThreadsMax = 1024;

// Notes when the steps of a job begin: a step ends where the next one begins.
class TimedJob final : public TileJob {
 public:
  TimedJob(TileJob& job, std::span<double> seconds) : job_(job), seconds_(seconds) {}

  int32_t BeginStep(int32_t step) override {
    if (step > 0) EndStep(step - 1);
    begin_ = std::chrono::steady_clock::now();
    return job_.BeginStep(step);
  }
  void RunTile(int32_t step, int32_t tile, int32_t worker) override {
    job_.RunTile(step, tile, worker);
  }
  void EndStep(int32_t step) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    seconds_[static_cast<size_t>(step)] += passed.count();
  }

 private:
  TileJob& job_;
  const std::span<double> seconds_;
  std::chrono::steady_clock::time_point begin_;
};

class CpuBackend final : public Backend, private TileJob {
 public:
  CpuBackend(const KernelTable& kernels, int32_t threads, const CpuBackendOptions& options)
      : pool_(threads),
        weights_(pool_, options.compute == ComputeMode::kF32, options.experts_mapped),
        repack_cache_(options.repack_cache) {
    round_.kernels = &kernels;
    round_.workers = threads;
  }

  Result<WeightId> AddMatrix(const TensorView& view, const std::string& name) override {
    REM_CHECK(!packed_, "weights come before PackWeights");
    return weights_.AddMatrix(view, name);
  }
  Result<WeightId> AddExpertMatrices(const TensorView& view, const std::string& name) override {
    REM_CHECK(!packed_, "weights come before PackWeights");
    return weights_.AddExpertMatrices(view, name);
  }
  Result<WeightId> AddHeadMatrices(const TensorView& view, const std::string& name) override {
    REM_CHECK(!packed_, "weights come before PackWeights");
    return weights_.AddHeadMatrices(view, name);
  }
  Result<WeightId> AddVector(const TensorView& view, const std::string& name) override {
    REM_CHECK(!packed_, "weights come before PackWeights");
    return weights_.AddVector(view, name);
  }
  Result<WeightId> AddEmbedding(const TensorView& view, const std::string& name) override {
    REM_CHECK(!packed_, "weights come before PackWeights");
    return weights_.AddEmbedding(view, name);
  }

  void PackWeights(const WeightsRead& on_read) override;
  const WeightsReport& weights_report() const override { return weights_report_; }

  Status Prepare(Program program, const KvLayout& layout, const KvMemoryOptions& kv_memory,
                 const RoundLimits& limits, const MemoryProgress& progress) override;

  KvPageRange dynamic_pages() const override { return kv_memory_.dynamic_pages(); }
  int32_t dynamic_granule() const override { return kv_memory_.granule(); }
  Status TakeDynamic(KvPageRange range) override { return kv_memory_.TakeDynamic(range); }
  void GiveBackDynamic(KvPageRange range) override { kv_memory_.GiveBackDynamic(range); }
  void CopyKvTokens(KvPageId from, KvPageId to, int32_t tokens) override;
  const KvMemoryReport& kv_memory_report() const override { return kv_memory_.report(); }

  void Run(const RoundInputs& inputs) override;
  std::vector<StepDescription> DescribeSteps() const override;
  void TimeSteps(std::span<double> seconds) override;
  void ObserveAttention(AttentionObserver observer) override {
    round_.attention_observer = std::move(observer);
  }
  std::span<const float> Logits(int32_t i) const override;
  SparseReadings ReadingsOf(int32_t sequence) const override;
  std::span<const float> ActivationRows(ActivationId id) const override;

  const ExpertLoad* expert_load() const override {
    return program_ == nullptr ? nullptr : program_->expert_load.get();
  }
  ThreadCosts WorkerCosts() const override { return pool_.WorkerCosts(); }

  int64_t weights_bytes() const override { return weights_.bytes(); }
  int64_t kv_bytes() const override { return kv_memory_.page_bytes() * kv_memory_.arena_pages(); }
  int64_t sealed_bytes() const override { return sealed_memory_.size_bytes(); }
  int32_t sealed_layers() const override {
    return program_ != nullptr && program_->sparse.on() ? program_->sparse.sealed().sealed_layers()
                                                        : 0;
  }
  int64_t activation_bytes() const override {
    return program_ == nullptr ? 0 : program_->activation_bytes;
  }
  std::string Describe() const override;

 private:
  int32_t BeginStep(int32_t step) override {
    return program_->steps[static_cast<size_t>(step)]->Begin();
  }
  void RunTile(int32_t step, int32_t tile, int32_t worker) override {
    program_->steps[static_cast<size_t>(step)]->RunTile(tile, worker);
  }
  Status TakeSealedMemory(const SealedLayout& layout);
  Status TakePanelScratch(CpuProgram* program);
  void CheckInputs(const RoundInputs& inputs) const;
  void CheckSealed(const RoundInputs& inputs) const;
  void PlaceRows(size_t sequence);

  WorkerPool pool_;
  CpuWeights weights_;
  const RepackCache repack_cache_;
  bool packed_ = false;
  WeightsReport weights_report_;
  RoundState round_;
  RoundLimits limits_;
  std::unique_ptr<KvLayout> layout_;
  KvMemory kv_memory_;
  MemoryRegion sealed_memory_;
  std::unique_ptr<CpuProgram> program_;  // null before Prepare
  std::span<double> step_seconds_;       // [steps] or empty: nobody times them
};

void CpuBackend::PackWeights(const WeightsRead& on_read) {
  REM_CHECK(!packed_, "weights are packed once");
  packed_ = true;
  const SystemClock clock;
  const TimePoint begin = clock.Now();
  weights_report_ = weights_.Pack(repack_cache_, on_read);
  weights_report_.seconds = static_cast<double>(ElapsedUs(begin, clock.Now())) / 1e6;
}

Status CpuBackend::Prepare(Program program, const KvLayout& layout,
                           const KvMemoryOptions& kv_memory, const RoundLimits& limits,
                           const MemoryProgress& progress) {
  REM_CHECK(program_ == nullptr, "Prepare comes once");
  if (!packed_) PackWeights(nullptr);
  limits_ = limits;
  layout_ = std::make_unique<KvLayout>(layout);
  auto compiled = std::make_unique<CpuProgram>();
  REM_RETURN_IF_ERROR(
      CompileCpuProgram(program, weights_, *layout_, limits, &round_, compiled.get()));
  REM_RETURN_IF_ERROR(TakePanelScratch(compiled.get()));
  REM_ASSIGN_OR_RETURN(kv_memory_,
                       KvMemory::Take(layout_->page_bytes(), kv_memory, pool_, progress));
  REM_RETURN_IF_ERROR(TakeSealedMemory(compiled->sparse.sealed()));
  compiled->memory.Prefault(pool_);
  weights_.TouchEmbeddings();
  round_.kv_pages = {kv_memory_.base(), layout_->page_bytes()};
  round_.kv_slots.resize(static_cast<size_t>(limits.rows_max));
  program_ = std::move(compiled);
  return Status::Ok();
}

Status CpuBackend::TakeSealedMemory(const SealedLayout& layout) {
  const int64_t bytes = layout.segment_bytes();
  if (limits_.sparse.segments == 0 || bytes == 0) return Status::Ok();
  if (limits_.sparse.segments > std::numeric_limits<int64_t>::max() / bytes) {
    return ResourceExhausted("sealed segments: more bytes than an address can count");
  }
  REM_ASSIGN_OR_RETURN(sealed_memory_,
                       MemoryRegion::Take(limits_.sparse.segments * bytes, "sealed segments"));
  sealed_memory_.Prefault(pool_);
  round_.sealed = {sealed_memory_.data(), bytes};
  return Status::Ok();
}

// Where workers pack the panels of mapped matrices.
Status CpuBackend::TakePanelScratch(CpuProgram* program) {
  constexpr int64_t kAlignment = 64;
  const int64_t panel = weights_.mapped_panel_bytes_max();
  if (panel == 0) return Status::Ok();
  const int64_t bytes = (panel + kAlignment - 1) / kAlignment * kAlignment;
  REM_ASSIGN_OR_RETURN(program->panel_scratch,
                       MemoryRegion::Take(bytes * round_.workers, "panels of mapped matrices"));
  program->panel_scratch.Prefault(pool_);
  round_.panel_scratch = program->panel_scratch.data();
  round_.panel_scratch_bytes = bytes;
  program->activation_bytes += bytes * round_.workers;
  return Status::Ok();
}

void CpuBackend::CopyKvTokens(KvPageId from, KvPageId to, int32_t tokens) {
  REM_CHECK(from != to && kv_memory_.Has(from) && kv_memory_.Has(to), "two KV pages");
  const std::byte* source = round_.kv_pages.Page(from);
  std::byte* target = round_.kv_pages.Page(to);
  pool_.ParallelFor(layout_->layer_count(), [&](int32_t layer) {
    CopyKvLayerTokens(*layout_, layer, source, target, tokens);
  });
}

void CpuBackend::Run(const RoundInputs& inputs) {
  REM_CHECK(program_ != nullptr, "Prepare comes before Run");
  CheckInputs(inputs);
  round_.inputs = inputs;
  round_.rows = {static_cast<int32_t>(inputs.tokens.size()), 0,
                 static_cast<int32_t>(inputs.logit_rows.size())};
  for (size_t s = 0; s + 1 < inputs.cu_seqlens_q.size(); ++s) PlaceRows(s);
  for (WindowPlan& plan : program_->windows) plan.Build(inputs);
  program_->sparse.Begin(static_cast<int32_t>(inputs.cu_seqlens_q.size()) - 1);
  // Without rows only what is sealed late: the first step of a program that has it.
  const bool only_seals = inputs.tokens.empty() && program_->sparse.on();
  const auto steps = only_seals ? 1 : static_cast<int32_t>(program_->steps.size());
  if (step_seconds_.empty()) {
    pool_.Run(*this, steps);
  } else {
    TimedJob job(*this, step_seconds_);
    pool_.Run(job, steps);
    job.EndStep(steps - 1);
  }
}

std::vector<StepDescription> CpuBackend::DescribeSteps() const {
  REM_CHECK(program_ != nullptr, "Prepare comes before its steps");
  return program_->descriptions;
}

void CpuBackend::TimeSteps(std::span<double> seconds) {
  REM_CHECK(program_ != nullptr, "Prepare comes before its steps");
  REM_CHECK(seconds.empty() || seconds.size() == program_->steps.size(), "a place for each step");
  step_seconds_ = seconds;
}

void CpuBackend::CheckInputs(const RoundInputs& inputs) const {
  const size_t rows = inputs.tokens.size();
  REM_CHECK(rows <= static_cast<size_t>(limits_.rows_max), "rows within the limit");
  REM_CHECK(inputs.positions.size() == rows, "a position for each token");
  const size_t entries = inputs.cu_seqlens_q.size();
  REM_CHECK(entries >= 1 && entries - 1 <= static_cast<size_t>(limits_.sequences_max),
            "sequences within the limit");
  REM_CHECK(inputs.cu_seqlens_k.size() == entries && inputs.page_table_begin.size() == entries,
            "every list has the same sequences");
  REM_CHECK(
      inputs.cu_seqlens_q.front() == 0 && static_cast<size_t>(inputs.cu_seqlens_q.back()) == rows,
      "each row belongs to a sequence");
  REM_CHECK(inputs.page_table_begin.front() >= 0 &&
                static_cast<size_t>(inputs.page_table_begin.back()) <= inputs.page_table.size(),
            "pages within the table");
  REM_CHECK(inputs.logit_rows.size() <= static_cast<size_t>(limits_.logit_rows_max),
            "logit rows within the limit");
  int32_t previous = -1;
  for (int32_t row : inputs.logit_rows) {
    REM_CHECK(row > previous && static_cast<size_t>(row) < rows, "logit rows ascend");
    previous = row;
  }
  CheckSealed(inputs);
}

void CpuBackend::CheckSealed(const RoundInputs& inputs) const {
  if (inputs.sealed_table_begin.empty()) return;
  const size_t entries = inputs.cu_seqlens_q.size();
  REM_CHECK(inputs.sealed_table_begin.size() == entries && inputs.sealed_table_begin.front() == 0 &&
                static_cast<size_t>(inputs.sealed_table_begin.back()) == inputs.sealed_table.size(),
            "sealed segments of the same sequences");
  REM_CHECK(inputs.seals.empty() || inputs.seals.size() + 1 == entries,
            "each sequence says what is sealed");
  for (const SealedSegmentId segment : inputs.sealed_table) {
    REM_CHECK(Index(segment) >= 0 && Index(segment) < limits_.sparse.segments, "a sealed segment");
  }
  for (size_t s = 0; s + 1 < entries; ++s) {
    const int32_t segments = inputs.sealed_table_begin[s + 1] - inputs.sealed_table_begin[s];
    const auto keys = static_cast<int32_t>(inputs.cu_seqlens_k[s + 1] - inputs.cu_seqlens_k[s]);
    REM_CHECK(segments == 0 || SegmentEnd(segments) > keys,
              "a sealed segment for each that is due");
    if (segments == 0 || inputs.seals.empty() || !program_->sparse.on()) continue;
    const SealRange seals = inputs.seals[s];
    const int32_t layers = sealed_layers();
    const int32_t rows = inputs.cu_seqlens_q[s + 1] - inputs.cu_seqlens_q[s];
    const bool sparse = rows > 0 && keys > limits_.sparse.engage_at;
    const int32_t ended = std::max(0, keys - kAnchorKeys) / kSegmentKeys;
    REM_CHECK(seals.begin >= 0 && seals.begin <= seals.end && seals.end <= ended * layers,
              "seals of keys that are there");
    REM_CHECK(!sparse || seals.end >= FarSegments(keys - 1) * layers,
              "what is far for a sparse row is sealed");
  }
}

// Checks a sequence and finds where its new tokens' keys and values go.
void CpuBackend::PlaceRows(size_t s) {
  const RoundInputs& in = round_.inputs;
  const int32_t row_begin = in.cu_seqlens_q[s];
  const int32_t rows = in.cu_seqlens_q[s + 1] - row_begin;
  const int64_t keys = in.cu_seqlens_k[s + 1] - in.cu_seqlens_k[s];
  REM_CHECK(rows >= 0 && keys >= rows && keys <= limits_.context_max, "keys within the context");
  const int64_t pages = in.page_table_begin[s + 1] - in.page_table_begin[s];
  REM_CHECK(pages * kKvPageTokens >= keys, "a page for every key");
  const KvPageId* table = in.page_table.data() + in.page_table_begin[s];
  for (int64_t p = 0; p * kKvPageTokens < keys; ++p) {
    REM_CHECK(kv_memory_.Has(table[p]), "a KV page");
  }
  const int32_t* positions = in.positions.data() + row_begin;
  KvSlot* slots = round_.kv_slots.data() + row_begin;
  for (int32_t i = 0; i < rows; ++i) {
    const int64_t position = keys - rows + i;
    REM_CHECK(positions[i] == position, "rows are the sequence's last positions");
    slots[i] = {round_.kv_pages.Page(table[position / kKvPageTokens]),
                static_cast<int32_t>(position % kKvPageTokens)};
  }
}

std::span<const float> CpuBackend::Logits(int32_t i) const {
  REM_CHECK(program_ != nullptr && i >= 0 && i < round_.Rows(RowSpace::kLogits),
            "logits of a row that was asked for");
  const ActivationMatrix& logits = program_->logits;
  return {logits.Row(i), static_cast<size_t>(logits.width)};
}

SparseReadings CpuBackend::ReadingsOf(int32_t sequence) const {
  REM_CHECK(program_ != nullptr && sequence >= 0 && sequence < limits_.sequences_max, "a sequence");
  return program_->sparse.ReadingsOf(sequence);
}

std::span<const float> CpuBackend::ActivationRows(ActivationId id) const {
  const auto index = static_cast<size_t>(id);
  REM_CHECK(program_ != nullptr && index < program_->activations.size(), "an activation");
  const ActivationMatrix& matrix = program_->activations[index];
  return {matrix.values, static_cast<size_t>(round_.Rows(matrix.space) * matrix.width)};
}

std::string CpuBackend::Describe() const {
  const int32_t threads = pool_.size();
  return "cpu, " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
         std::string(round_.kernels->name);
}

}  // namespace

int32_t CpuThreads(const CpuBackendOptions& options) {
  const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  return std::min(options.threads > 0 ? options.threads : std::max(1, cores), kThreadsMax);
}

Result<const KernelTable*> CpuKernels() {
  const char* forced = std::getenv("REMONTOIR_ISA");
  if (forced == nullptr || *forced == '\0') return &BestKernels();
  const KernelTable* kernels = KernelsByName(forced);
  if (kernels != nullptr) return kernels;
  return Unsupported("REMONTOIR_ISA: this processor has no kernels named '" + std::string(forced) +
                     "'");
}

Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options) {
  REM_ASSIGN_OR_RETURN(const KernelTable* kernels, CpuKernels());
  if (options.threads < 0 || options.threads > kThreadsMax) {
    return InvalidArgument("threads: " + std::to_string(options.threads) + ", wanted 0 ... " +
                           std::to_string(kThreadsMax));
  }
  return std::unique_ptr<Backend>(
      std::make_unique<CpuBackend>(*kernels, CpuThreads(options), options));
}

}  // namespace remontoir
