// What the steps of a CPU round are made of and what they share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/backend.h"
#include "backend/expert_load.h"
#include "kernels/activation_block.h"
#include "kernels/kernel_table.h"

namespace remontoir {

inline constexpr int kRowSpaces = 3;

// An activation's memory, planned for the largest round.
struct ActivationMatrix {
  std::string name;
  RowSpace space = RowSpace::kTokens;
  int64_t width = 0;
  float* values = nullptr;  // [rows][width], 64-byte aligned
  // [rows][width / 32] 8-bit form, in the fine form each row followed by that of what it leaves
  // over: [rows][2][width / 32]. Null: nobody wants it in 8 bits.
  ActivationBlock* blocks = nullptr;
  bool fine = false;

  int64_t row_blocks() const { return width / kActivationBlock; }
  int64_t block_stride() const { return fine ? 2 * row_blocks() : row_blocks(); }
  float* Row(int64_t row) const { return values + row * width; }
  ActivationBlock* BlockRow(int64_t row) const { return blocks + row * block_stride(); }
};

// Which experts the rows of a round go to: written by the last route step.
struct RoutingState {
  int32_t used = 0;                   // experts a token
  std::vector<int32_t> chosen;        // [tokens][used] expert, by rank
  std::vector<float> weights;         // [tokens][used]
  std::vector<int32_t> expert_row;    // [tokens][used] its row in the kExperts space
  std::vector<int32_t> token_of_row;  // [tokens * used] by row of the kExperts space
  std::vector<int32_t> first_row;     // [experts + 1] rows of each expert
  std::vector<int32_t> active;        // experts that have rows, ascending
};

// Where a token's keys and values go.
struct KvSlot {
  std::byte* page = nullptr;
  int32_t slot = 0;  // of the page's kKvPageTokens
};

// Where sealed segments are.
struct SealedSegments {
  std::byte* base = nullptr;
  int64_t segment_bytes = 0;

  std::byte* At(SealedSegmentId segment) const { return base + Index(segment) * segment_bytes; }
};

// The state of the round that runs. Written between rounds and by steps that say so.
struct RoundState {
  const KernelTable* kernels = nullptr;
  int32_t workers = 1;
  KvPages kv_pages;
  SealedSegments sealed;
  RoundInputs inputs;
  std::array<int32_t, kRowSpaces> rows = {0, 0, 0};  // by RowSpace
  std::vector<KvSlot> kv_slots;                      // [tokens]
  RoutingState routing;
  ExpertLoad* expert_load = nullptr;   // of programs that route; else nobody counts
  std::byte* panel_scratch = nullptr;  // [workers][panel_scratch_bytes] for mapped matrices
  int64_t panel_scratch_bytes = 0;

  std::byte* PanelScratch(int32_t worker) const {
    return panel_scratch + worker * panel_scratch_bytes;
  }
  AttentionObserver attention_observer;  // null: nobody looks

  int32_t Rows(RowSpace space) const { return rows[static_cast<size_t>(space)]; }
};

inline constexpr int32_t kAllRows = std::numeric_limits<int32_t>::max();

// A compiled operation or a part of one: what TileJob asks of a step.
class Step {
 public:
  virtual ~Step() = default;
  virtual int32_t Begin() = 0;
  virtual void RunTile(int32_t tile, int32_t worker) = 0;

  // Memory that a tile of the round begins with, known before Begin, for the step before to ask
  // for; null: unknown. Of steps that read a stream of weights.
  virtual const std::byte* FirstWeights(int32_t /*tile*/) const { return nullptr; }
  virtual bool ReadsWeights() const { return false; }
  // The next step that reads weights (null: none), which stays where it is.
  virtual void NoteNext(const Step* /*next*/) {}

  // Steps that hold a whole run of an output's values while it is in cache can write its 8-bit form
  // too (as the matrix has it: see ActivationMatrix::fine). Returns up to how many rows of a round
  // this one does so from now on; for rounds of more rows a step of its own does it.
  virtual int32_t QuantiseOutputToo() { return 0; }
};

// Writes the 8-bit form of values [column, column + width) of a row, whole blocks of 32.
inline void QuantiseValues(const KernelTable& kernels, const ActivationMatrix& matrix, int64_t row,
                           int64_t column, int64_t width) {
  const float* values = matrix.Row(row) + column;
  ActivationBlock* first = matrix.BlockRow(row) + column / kActivationBlock;
  if (matrix.fine) {
    kernels.quantise_row_fine(values, width, first, first + matrix.row_blocks());
  } else {
    kernels.quantise_row(values, width, first);
  }
}

}  // namespace remontoir
