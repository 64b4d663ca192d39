// Every kernel of one instruction set: plain functions of pointers and sizes. All tables give the
// same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/activation_block.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/packing.h"
#include "kernels/sparse.h"
#include "tensor/dtype.h"

namespace remontoir {

struct KernelTable {
  std::string_view name;  // "scalar", "avx2", "avxvnni", "avx512"

  // --- Matrix products; entries of the other kind of format are null. ---
  std::array<void (*)(const FloatProduct&), kPanelFormatCount> float_product;
  std::array<void (*)(const QuantisedProduct&), kPanelFormatCount> quantised_product;

  // Blocks of 32 with scale = largest magnitude / 127; width is a multiple of 32. A block with a
  // value that isn't finite becomes zeros with scale NaN, so that its products say so.
  void (*quantise_row)(const float* in, int64_t width, ActivationBlock* out);
  // `first` as quantise_row has it, and the same of what it leaves over, value - scale * q.
  void (*quantise_row_fine)(const float* in, int64_t width, ActivationBlock* first,
                            ActivationBlock* second);

  // --- Attention by KV element type: kF32, kF16, kBF16, kQ8_0 at their DType's index, else null.
  // ---
  std::array<void (*)(const AttentionPartial&), kDTypeCount> attention_partial;
  // Joins the next partial of the same row, in order; an empty partial changes nothing.
  void (*merge_partial)(const SoftmaxState& partial, const float* partial_sum, int value_width,
                        SoftmaxState* state, float* sum);
  // out = sum / total weight, [rows][value_width]; zeros where a row saw no key. `sink_logits`
  // ([rows]; null: none) join the totals. out may be `sums`.
  void (*finish_rows)(const SoftmaxState* states, const float* sums, int rows, int value_width,
                      const float* sink_logits, float* out);

  // --- Sparse attention; the structs say what each does. ---
  // mean, axis by so many power iterations, projections and their spread.
  void (*principal_axis)(const KeySet& keys, int iterations, PrincipalAxis* out);
  // The axis times its deviation, and the variance by column that this leaves over; [stride] each.
  void (*block_spread)(const KeySet& keys, const PrincipalAxis& axis, float* scaled_axis,
                       float* rest);
  void (*pack_statistics)(const StatisticsPanel&);
  void (*scale_query)(const QueryScaling&);
  void (*estimate_blocks)(const BlockEstimate&);
  BlockTotals (*weigh_blocks)(const BlockWeighing&);
  BlockTotals (*join_errors)(const ErrorJoin&);  // of `joined`
  void (*choose_blocks)(const BlockChoice&);
  BlockTotals (*drop_blocks)(const BlockDrop&);  // without a floor
  void (*add_block_means)(const BlockMeans&);
  // By the sealed type: kF32, kF16 and kBF16, else null.
  std::array<void (*)(const PanelAttention&), kDTypeCount> attend_panels;

  // --- KV: `slot` is the token's place in its page, `head` the head's keys or values there. ---
  void (*store_key)(const float* key, int width, DType type, int slot, std::byte* head_keys);
  void (*store_value)(const float* value, int width, DType type, int slot, std::byte* head_values);
  // A page's keys or values of one head as rows of float32, [kKvPageTokens][stride]; columns from
  // `width` on stay as they are.
  void (*load_keys)(const std::byte* head_keys, int width, DType type, int64_t stride, float* rows);
  void (*load_values)(const std::byte* head_values, int width, DType type, int64_t stride,
                      float* rows);

  // Rotates the first 2 * pairs values of a head in place by the angles whose cos and sin are given
  // ([pairs], magnitude included).
  void (*rope_interleaved)(float* head, int pairs, const float* cos,
                           const float* sin);  // x[2i], x[2i+1]
  void (*rope_halves)(float* head, int pairs, const float* cos,
                      const float* sin);  // x[i], x[i + pairs]

  // --- Row by row. `out` may be an input. ---
  // out = in / sqrt(mean(in^2) + epsilon) * weight
  void (*rms_norm)(const float* in, const float* weight, float epsilon, int64_t width, float* out);
  void (*silu_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*gelu_tanh_gate)(const float* gate, const float* up, int64_t width, float* out);
  // With g = min(gate, 7) and u = up within -7 ... 7: g / (1 + e^(-1.702 g)) * (u + 1). OpenAI's
  // gpt-oss model card and reference code, 2025.
  void (*clamped_swiglu_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*add)(const float* in, int64_t width, float* inout);
  void (*scale)(float factor, int64_t width, float* inout);
  void (*soft_cap)(float cap, int64_t width, float* inout);  // cap * tanh(x / cap)
  // inout = factor * in + inout: expert outputs by rank, starting from zeros.
  void (*add_scaled)(const float* in, float factor, int64_t width, float* inout);
};

const KernelTable& ScalarKernels();
// x86-64 processors with AVX2, FMA and F16C run kernels in vectors, all others the scalar ones.
// Null where the processor lacks the instructions.
const KernelTable* Avx2Kernels();
// AVX2 with dot products of bytes. They are one instruction: where a processor has it for AVX-512
// alone, that encoding runs, and the fastest table is Avx512Kernels().
const KernelTable* AvxVnniKernels();
// With VNNI; takes from AVX2 what it has no better form of.
const KernelTable* Avx512Kernels();
// The fastest table that this processor runs.
const KernelTable& BestKernels();
// The table of that name, if this processor runs it.
const KernelTable* KernelsByName(std::string_view name);

}  // namespace remontoir
