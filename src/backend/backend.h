// A device: owns weights, KV pages and activations, and runs a round's operations in one dispatch.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/kv_memory.h"
#include "backend/program.h"
#include "backend/repack_cache.h"
#include "backend/step_profile.h"
#include "base/status.h"
#include "base/thread_counters.h"
#include "tensor/kv_layout.h"
#include "tensor/sealed_layout.h"
#include "tensor/tensor_view.h"

namespace remontoir {

class ExpertLoad;
struct KernelTable;

enum class ComputeMode : uint8_t {
  kAuto,  // quantised weights meet 8-bit activations; float weights meet float32
  kF32,   // everything in float32, for conformance
};

// Sparse attention: backend/sparse_attention.h says what it computes. Layers with a window, a
// soft cap, sink logits or a temperature by position stay exact.
struct SparseAttentionOptions {
  int32_t engage_at = 0;  // rows from this position on, 0: none
  float epsilon = 0.1F;   // above 0
  int32_t block_keys = 16;
  // A row group that leaves more is computed exactly. Infinity: never.
  float residual_max = std::numeric_limits<float>::infinity();
  int32_t segments = 0;  // sealed segments that memory is taken for
};

// Bounds of any round; memory is planned from them.
struct RoundLimits {
  int32_t rows_max = 512;  // tokens of a round
  int32_t sequences_max = 8;
  int32_t logit_rows_max = 128;
  int32_t context_max = 0;  // keys of one sequence
  SparseAttentionOptions sparse = {};
};

// What a sequence's rows of a round read of their far keys, over all layers and heads.
struct SparseReadings {
  int64_t far_blocks = 0;
  int64_t chosen_blocks = 0;
  float residual_max = 0;  // of any row: the error left, as a part of its softmax's weight
};

// One mixed round: the rows of all sequences, sequence by sequence, positions ascending.
struct RoundInputs {
  std::span<const int32_t> tokens;            // [rows] rows of the embedding table
  std::span<const int32_t> positions;         // [rows]
  std::span<const int32_t> cu_seqlens_q;      // [sequences + 1] rows of each sequence
  std::span<const int64_t> cu_seqlens_k;      // [sequences + 1] running sum of keys after the round
  std::span<const KvPageId> page_table;       // pages of all sequences, one after the other
  std::span<const int32_t> page_table_begin;  // [sequences + 1] into page_table
  std::span<const int32_t> logit_rows;        // ascending rows whose logits are wanted
  // The sealed segments of all sequences, one after the other, and [sequences + 1] into it; both
  // empty: the round is exact. A sequence with none is exact; any other has one for each segment
  // that is sealed or far at its last position. Its rows below engage_at are exact; those from
  // there on stand in whole groups of 8 positions, or are single.
  std::span<const SealedSegmentId> sealed_table = {};
  std::span<const int32_t> sealed_table_begin = {};
  // [sequences] or empty: the seals that this round makes for each; those before them are made, and
  // the keys are there when it ends. They are all that its sparse rows need. Empty: those that
  // become due with the round's rows, all that were due before being made. A sequence may have
  // seals and no rows.
  std::span<const SealRange> seals = {};
};

// How the matrices came into the order in which Run reads them.
struct WeightsReport {
  int64_t bytes = 0;  // of all of them, packed
  bool from_cache = false;
  bool stored = false;             // in the cache, for the next time
  double seconds = 0;              // storing included
  std::vector<std::string> notes;  // why the cache could not be read, or written
};

// Called after the bytes of a matrix were read: once, or twice where a cache is asked. done_bytes
// and total_bytes count every time.
using WeightsRead = std::function<void(WeightId id, int64_t done_bytes, int64_t total_bytes)>;

// Memory of keys and values, for who decides which sequence holds which page. Between rounds. Pages
// of the arena are numbered 0 ... KvMemoryOptions::arena_pages - 1.
class KvStore {
 public:
  virtual ~KvStore() = default;

  // The numbers of dynamic pages. Ranges of them begin and end at multiples of the granule.
  virtual KvPageRange dynamic_pages() const = 0;
  virtual int32_t dynamic_granule() const = 0;
  // Asks the system for a range's memory, faults it in and zeroes it: the old way to prepare a
  // request, slow on purpose. ResourceExhausted when the system has none. GiveBackDynamic returns
  // such a range to it.
  virtual Status TakeDynamic(KvPageRange range) = 0;
  virtual void GiveBackDynamic(KvPageRange range) = 0;

  // Keys and values of the first `tokens` tokens of a page, in every layer and head, into another
  // page, bit for bit. What the other page held of later tokens is lost. Allocates nothing.
  virtual void CopyKvTokens(KvPageId from, KvPageId to, int32_t tokens) = 0;
};

// Sees an attention operation of a round when its queries and keys are there and before it runs.
using AttentionObserver = std::function<void(const AttentionBatch& batch)>;

// Its memory of keys and values is there after Prepare.
class Backend : public KvStore {
 public:
  // Loading, in any order, before PackWeights. The view's bytes must stay mapped until PackWeights
  // returns (of embeddings and mapped experts: as long as the backend lives). Errors name the
  // tensor.
  virtual Result<WeightId> AddMatrix(const TensorView& view, const std::string& name) = 0;
  virtual Result<WeightId> AddExpertMatrices(const TensorView& view, const std::string& name) = 0;
  // One a head: packed whatever experts are.
  virtual Result<WeightId> AddHeadMatrices(const TensorView& view, const std::string& name) = 0;
  virtual Result<WeightId> AddVector(const TensorView& view, const std::string& name) = 0;
  virtual Result<WeightId> AddEmbedding(const TensorView& view, const std::string& name) = 0;

  // Brings the matrices into the order in which Run reads them, or fetches them so from the cache.
  // Once, between the last Add... and Prepare; Prepare does it where that wasn't done.
  virtual void PackWeights(const WeightsRead& on_read) = 0;
  virtual const WeightsReport& weights_report() const = 0;

  // Takes all memory: KV pages and activations for any round within the limits. After it, Run
  // allocates nothing. Progress, if any, counts bytes of the KV arena.
  virtual Status Prepare(Program program, const KvLayout& layout, const KvMemoryOptions& kv_memory,
                         const RoundLimits& limits, const MemoryProgress& progress = nullptr) = 0;

  virtual const KvMemoryReport& kv_memory_report() const = 0;

  // Runs the program. Inputs must lie within the limits and name pages of the arena or dynamic ones
  // that are taken (checked: a violation is a bug of ours).
  virtual void Run(const RoundInputs& inputs) = 0;

  // For benches, after Prepare: the steps that every Run goes through, in order, and where from now
  // on Run adds the seconds of each (empty: nowhere any more).
  virtual std::vector<StepDescription> DescribeSteps() const = 0;
  virtual void TimeSteps(std::span<double> seconds) = 0;

  // For benches and eval: from now on every Run shows its attention operations, one after the other
  // on some thread of its own, which waits meanwhile. Null: no more.
  virtual void ObserveAttention(AttentionObserver observer) = 0;

  // Logits of inputs.logit_rows[i] of the last Run: [vocabulary], valid until the next Run.
  virtual std::span<const float> Logits(int32_t i) const = 0;

  // Of the last Run.
  virtual SparseReadings ReadingsOf(int32_t sequence) const = 0;

  // Rows of an activation after the last Run, for conformance tests and diagnosis.
  virtual std::span<const float> ActivationRows(ActivationId id) const = 0;

  // What experts computed so far; null before Prepare and where nothing is routed.
  virtual const ExpertLoad* expert_load() const = 0;

  // Page faults and heap allocations of threads of its own so far, as of the last Run or shortly
  // before. Those of Run's caller are the caller's to count.
  virtual ThreadCosts WorkerCosts() const = 0;

  virtual int64_t weights_bytes() const = 0;
  virtual int64_t kv_bytes() const = 0;      // of the arena's pages
  virtual int64_t sealed_bytes() const = 0;  // of all sealed segments
  // Seals of a segment; 0: no layer is attended to sparsely. After Prepare.
  virtual int32_t sealed_layers() const = 0;
  virtual int64_t activation_bytes() const = 0;
  virtual std::string Describe() const = 0;  // "cpu, 2 threads, avx2"
};

struct CpuBackendOptions {
  int32_t threads = 0;  // 0: as many as cores
  ComputeMode compute = ComputeMode::kAuto;
  RepackCacheOptions repack_cache = {};  // none
  // Experts' matrices stay in the model file in its own format, and each use packs what it reads:
  // slower, the same bits, and no memory of the backend's. Their views must stay mapped as long as
  // the backend lives.
  bool experts_mapped = false;
};

// The threads that a backend of these options computes with.
int32_t CpuThreads(const CpuBackendOptions& options);

// The kernels that REMONTOIR_ISA names, or the fastest. kUnsupported: this processor hasn't those.
Result<const KernelTable*> CpuKernels();

// The CPU back end, of these kernels.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options);

}  // namespace remontoir
