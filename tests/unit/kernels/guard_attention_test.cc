// Attention between forbidden pages: queries, pages, states and sums are all that it touches.
#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/kv_layout.h"
#include "tests/support/bits.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

struct Widths {
  int key;
  int value;
};

constexpr Widths kWidths[] = {{64, 64},   {80, 80}, {128, 128}, {256, 256}, {96, 32},
                              {192, 128}, {20, 45}, {1, 1},     {3, 7},     {13, 9},
                              {33, 31},   {32, 24}, {8, 15},    {16, 17}};

// Which keys of the blocks the rows see: whole blocks, parts of them, none.
struct Visible {
  const char* name;
  int begin;       // of the first row
  int begin_step;  // added from row to row
  int end;
  int end_step;
};

constexpr int kBlocks = 2;

constexpr Visible kVisible[] = {
    {"all", 0, 0, kBlocks* kKvPageTokens, 0},
    {"one key", 0, 0, 1, 0},
    {"the last key", kBlocks* kKvPageTokens - 1, 0, kBlocks* kKvPageTokens, 0},
    {"a causal edge", 0, 0, 50, 1},
    {"a window", 3, 1, 47, 1},
    {"a window over two blocks", 61, 2, 70, 2},
    {"keys of the second block", 64, 0, 81, 1},
    {"nothing at first", 0, 0, 0, 5},
};

// One KV head's blocks. Only keys that some row sees were stored; the rest is NaN in float types.
class HeadBlocks {
 public:
  HeadBlocks(DType type, Widths widths, int begin, int end)
      : layout_(
            {{.kv_heads = 1, .key_width = widths.key, .value_width = widths.value, .type = type}}) {
    const auto key_bytes = static_cast<size_t>(layout_.value_offset(0, 0));
    const auto value_bytes = static_cast<size_t>(layout_.page_bytes()) - key_bytes;
    for (int b = 0; b < kBlocks; ++b) {
      keys_.emplace_back(key_bytes, std::byte{0xff});
      values_.emplace_back(value_bytes, std::byte{0xff});
    }
    for (int k = begin; k < end; ++k) {
      const auto seed = static_cast<uint64_t>(k);
      const auto block = static_cast<size_t>(k / kKvPageTokens);
      ScalarKernels().store_key(Normals(static_cast<size_t>(widths.key), 500 + seed).data(),
                                widths.key, type, k % kKvPageTokens, keys_[block].data());
      ScalarKernels().store_value(Normals(static_cast<size_t>(widths.value), 900 + seed).data(),
                                  widths.value, type, k % kKvPageTokens, values_[block].data());
    }
  }

  std::vector<KeyBlock> In(GuardedArrays& arrays) const {
    std::vector<KeyBlock> blocks;
    for (int32_t b = 0; b < kBlocks; ++b) {
      const auto at = static_cast<size_t>(b);
      blocks.push_back({arrays.In(keys_[at]), arrays.In(values_[at]), b});
    }
    return blocks;
  }

 private:
  KvLayout layout_;
  std::vector<std::vector<std::byte>> keys_;
  std::vector<std::vector<std::byte>> values_;
};

struct Call {
  DType type;
  Widths widths;
  const Visible& visible;
  int rows;
  float soft_cap;
};

// The call's arrays that kernels only read.
AttentionPartial Inputs(const Call& call, const HeadBlocks& head, GuardedArrays& arrays) {
  std::vector<AttentionRow> rows;
  for (int r = 0; r < call.rows; ++r) {
    const int end = std::min(call.visible.end + r * call.visible.end_step, kBlocks * kKvPageTokens);
    const auto seed = static_cast<uint64_t>(r);
    rows.push_back({arrays.In(Normals(static_cast<size_t>(call.widths.key), seed)),
                    std::min(call.visible.begin + r * call.visible.begin_step, end), end});
  }
  return {.rows = arrays.In(rows),
          .row_count = call.rows,
          .blocks = arrays.In(head.In(arrays)),
          .block_count = kBlocks,
          .key_width = call.widths.key,
          .value_width = call.widths.value,
          .scale = 0.125F,
          .soft_cap = call.soft_cap,
          .states = nullptr,
          .sums = nullptr};
}

// Runs the kernel with states and sums of their own and returns their bits.
std::vector<uint32_t> Attend(const KernelTable& table, DType type, AttentionPartial partial,
                             GuardedArrays& arrays) {
  const auto rows = static_cast<size_t>(partial.row_count);
  const size_t sums = rows * static_cast<size_t>(partial.value_width);
  partial.states = arrays.Out<SoftmaxState>(rows);
  partial.sums = arrays.Out<float>(sums);
  table.attention_partial[static_cast<size_t>(type)](partial);
  auto bits = BitsOf(partial.sums, sums);
  for (const uint32_t word : BitsOf(partial.states, rows)) bits.push_back(word);
  return bits;
}

class GuardedAttention : public testing::TestWithParam<DType> {
 protected:
  static void Expect(const Call& call) {
    const int last = std::max(call.rows - 1, 0);
    const int begin = call.visible.begin;
    const int end =
        std::min(call.visible.end + last * call.visible.end_step, kBlocks * kKvPageTokens);
    const HeadBlocks head(call.type, call.widths, begin, end);
    std::vector<uint32_t> expected;
    for (const GuardSide side : kGuardSides) {
      GuardedArrays inputs(side);
      const AttentionPartial partial = Inputs(call, head, inputs);
      for (const KernelTable* table : RunnableTables()) {
        GuardedArrays outputs(side);
        const auto bits = Attend(*table, call.type, partial, outputs);
        if (expected.empty()) expected = bits;  // the scalar table comes first
        ASSERT_EQ(bits, expected) << table->name << ", " << Name(side) << ", " << call.rows
                                  << " rows of widths " << call.widths.key << " and "
                                  << call.widths.value << " that see " << call.visible.name;
        ASSERT_TRUE(outputs.surroundings_intact()) << table->name << ", " << Name(side);
      }
    }
  }
};

TEST_P(GuardedAttention, TouchesItsArraysAlone) {
  for (const Widths widths : kWidths) {
    for (const Visible& visible : kVisible) {
      for (const int rows : {1, 2, 4, 6, 7, 13}) {
        // Wide heads at every height would take long and tell no more.
        if (rows > 7 && widths.key > 80) continue;
        Expect({GetParam(), widths, visible, rows, rows % 3 == 0 ? 2.0F : 0.0F});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GuardedAttention, WithoutRowsTouchesNothing) {
  Expect({GetParam(), {64, 64}, kVisible[0], 0, 0});
}

TEST_P(GuardedAttention, RunsAtEveryRowCountTo33) {
  for (int rows = 1; rows <= 33; ++rows) {
    for (const int visible : {0, 3, 5}) {
      Expect({GetParam(), {32, 32}, kVisible[visible], rows, 0});
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GuardedAttention, testing::ValuesIn(KvTypes()),
                         [](const auto& type) { return std::string(Info(type.param).name); });

}  // namespace
}  // namespace remontoir
