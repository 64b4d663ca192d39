// Every kernel that works on a row, as a function of made-up values: a new kernel is one more line.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "tests/support/bits.h"
#include "tests/support/guarded_buffer.h"

namespace remontoir {

// The arguments of a row kernel: what it reads and where it writes, each an array of its own.
struct RowCall {
  const KernelTable& table;
  GuardedArrays& arrays;
  int width;
  std::vector<float> (*make)(size_t count, uint64_t seed);

  std::vector<float> Values(uint64_t seed, int count) const {
    return make(static_cast<size_t>(count), 100 * seed + static_cast<uint64_t>(width));
  }
  const float* In(uint64_t seed) const { return arrays.In(Values(seed, width)); }
  float* InOut(uint64_t seed) const { return arrays.InOut(Values(seed, width)); }
  float* Out() const { return arrays.Out<float>(static_cast<size_t>(width)); }
  std::vector<uint32_t> Result(const float* out) const {
    return BitsOf(out, static_cast<size_t>(width));
  }
};

using RopeKernel = void (*)(float*, int, const float*, const float*);

inline std::vector<uint32_t> Rotate(const RowCall& c, RopeKernel kernel) {
  float* head = c.arrays.InOut(c.Values(1, 2 * c.width));
  kernel(head, c.width, c.In(2), c.In(3));
  return BitsOf(head, static_cast<size_t>(2 * c.width));
}

struct RowKernel {
  const char* name;
  // Calls the kernel with rows of `width` values (pairs for RoPE, blocks for quantisation) and
  // returns what it wrote.
  std::vector<uint32_t> (*run)(const RowCall& c);
};

inline const RowKernel kRowKernels[] = {
    {"rms_norm",
     [](const RowCall& c) {
       float* out = c.Out();
       c.table.rms_norm(c.In(1), c.In(2), 1e-5F, c.width, out);
       return c.Result(out);
     }},
    {"silu_gate",
     [](const RowCall& c) {
       float* out = c.Out();
       c.table.silu_gate(c.In(1), c.In(2), c.width, out);
       return c.Result(out);
     }},
    {"gelu_tanh_gate",
     [](const RowCall& c) {
       float* out = c.Out();
       c.table.gelu_tanh_gate(c.In(1), c.In(2), c.width, out);
       return c.Result(out);
     }},
    {"clamped_swiglu_gate",
     [](const RowCall& c) {
       float* out = c.Out();
       c.table.clamped_swiglu_gate(c.In(1), c.In(2), c.width, out);
       return c.Result(out);
     }},
    {"add",
     [](const RowCall& c) {
       float* out = c.InOut(1);
       c.table.add(c.In(2), c.width, out);
       return c.Result(out);
     }},
    {"scale",
     [](const RowCall& c) {
       float* out = c.InOut(1);
       c.table.scale(0.37F, c.width, out);
       return c.Result(out);
     }},
    {"soft_cap",
     [](const RowCall& c) {
       float* out = c.InOut(1);
       c.table.soft_cap(1.5F, c.width, out);
       return c.Result(out);
     }},
    {"add_scaled",
     [](const RowCall& c) {
       float* out = c.InOut(1);
       c.table.add_scaled(c.In(2), 0.37F, c.width, out);
       return c.Result(out);
     }},
    {"rope_interleaved", [](const RowCall& c) { return Rotate(c, c.table.rope_interleaved); }},
    {"rope_halves", [](const RowCall& c) { return Rotate(c, c.table.rope_halves); }},
    {"quantise_row_fine",
     [](const RowCall& c) {
       auto* first = c.arrays.Out<ActivationBlock>(static_cast<size_t>(c.width));
       auto* second = c.arrays.Out<ActivationBlock>(static_cast<size_t>(c.width));
       const int values = c.width * kActivationBlock;
       c.table.quantise_row_fine(c.arrays.In(c.Values(1, values)), values, first, second);
       std::vector<uint32_t> bits = BitsOf(first, static_cast<size_t>(c.width));
       const std::vector<uint32_t> more = BitsOf(second, static_cast<size_t>(c.width));
       bits.insert(bits.end(), more.begin(), more.end());
       return bits;
     }},
    {"quantise_row",
     [](const RowCall& c) {
       auto* out = c.arrays.Out<ActivationBlock>(static_cast<size_t>(c.width));
       const int values = c.width * kActivationBlock;
       c.table.quantise_row(c.arrays.In(c.Values(1, values)), values, out);
       return BitsOf(out, static_cast<size_t>(c.width));
     }},
    {"merge_partial",
     [](const RowCall& c) {
       SoftmaxState* state = c.arrays.InOut(std::vector<SoftmaxState>{{1.5F, 3.0F}});
       float* sum = c.InOut(1);
       c.table.merge_partial(*c.arrays.In(std::vector<SoftmaxState>{{2.5F, 1.25F}}), c.In(2),
                             c.width, state, sum);
       auto bits = c.Result(sum);
       for (const uint32_t word : BitsOf(state, 1)) bits.push_back(word);
       return bits;
     }},
    {"finish_rows",
     [](const RowCall& c) {
       float* out = c.Out();
       c.table.finish_rows(c.arrays.In(std::vector<SoftmaxState>{{2.5F, 1.25F}}), c.In(1), 1,
                           c.width, c.arrays.In(std::vector<float>{0.5F}), out);
       return c.Result(out);
     }},
};

}  // namespace remontoir
