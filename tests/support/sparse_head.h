// One KV head with keys in clusters, its sealed segments, and attention to it both ways.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/seal_segment.h"
#include "backend/sparse_attention.h"
#include "kernels/kernel_table.h"
#include "tensor/kv_layout.h"
#include "tests/support/kernel_cases.h"

namespace remontoir {

struct HeadShape {
  int32_t key_width = 64;
  int32_t value_width = 64;
  DType kv_type = DType::kF16;
  int32_t block_keys = 16;
};

class SparseHead {
 public:
  using RowOf = std::function<std::vector<float>(int key)>;

  SparseHead(const KernelTable& kernels, const HeadShape& shape, int keys, const RowOf& key_of,
             const RowOf& value_of)
      : kernels_(&kernels),
        shape_{shape.key_width, shape.value_width, SealedType(shape.kv_type), shape.block_keys},
        kv_type_(shape.kv_type),
        keys_(keys),
        layout_({{.kv_heads = 1,
                  .key_width = shape.key_width,
                  .value_width = shape.value_width,
                  .type = shape.kv_type}}),
        pages_(static_cast<size_t>(layout_.page_bytes() * ((keys + 63) / 64))) {
    for (int key = 0; key < keys; ++key) {
      std::byte* page = Page(key / kKvPageTokens);
      kernels.store_key(key_of(key).data(), shape.key_width, shape.kv_type, key % kKvPageTokens,
                        page);
      kernels.store_value(value_of(key).data(), shape.value_width, shape.kv_type,
                          key % kKvPageTokens, page + layout_.value_offset(0, 0));
    }
  }

  const SealedShape& shape() const { return shape_; }

  // Seals the segments that the last key's row knows.
  void Seal() {
    SealScratch scratch;
    scratch.Reserve(shape_.key_width, shape_.value_width);
    const auto bytes = static_cast<size_t>(OffsetsOf(shape_).bytes);
    segments_.assign(static_cast<size_t>(FarSegments(keys_ - 1)),
                     std::vector<std::byte>(bytes, std::byte{0xff}));
    for (size_t s = 0; s < segments_.size(); ++s) SealOne(static_cast<int>(s), scratch);
  }
  void SealOne(int segment, SealScratch& scratch) {
    std::vector<const std::byte*> keys;
    std::vector<const std::byte*> values;
    const int first = SegmentEnd(segment - 1) / kKvPageTokens;
    for (int page = first; page < first + kSegmentPages; ++page) {
      keys.push_back(Page(page));
      values.push_back(Page(page) + layout_.value_offset(0, 0));
    }
    SealSegment(*kernels_, shape_, {keys.data(), values.data(), kv_type_}, scratch,
                segments_[static_cast<size_t>(segment)].data());
  }
  std::vector<std::vector<std::byte>>& segments() { return segments_; }

  struct Result {
    std::vector<float> out;  // [rows][value_width]
    std::vector<float> residuals;
    SparseCounts counts;
  };

  // Rows of one group: queries[r] at positions[r].
  Result Attend(const SparseSettings& settings, const std::vector<std::vector<float>>& queries,
                const std::vector<int>& positions) {
    const auto rows = Rows(queries, positions);
    std::vector<SoftmaxState> states(rows.size());
    Result result;
    result.out.resize(rows.size() * static_cast<size_t>(shape_.value_width));
    result.residuals.resize(rows.size());
    const int segment_count = FarSegments(positions.front());
    std::vector<KeyBlock> local = {Block(0)};
    const int first = segment_count == 0 ? 1 : SegmentEnd(segment_count - 1) / kKvPageTokens;
    for (int page = first; page <= positions.back() / kKvPageTokens; ++page) {
      local.push_back(Block(page));
    }
    std::vector<const std::byte*> segments;
    for (const auto& segment : segments_) segments.push_back(segment.data());
    SparseScratch scratch;
    scratch.Reserve(static_cast<int64_t>(rows.size()), shape_, segment_count);
    SparseGroup group{};
    group.rows = rows.data();
    group.row_count = static_cast<int>(rows.size());
    group.local_blocks = local.data();
    group.local_block_count = static_cast<int>(local.size());
    group.kv_type = kv_type_;
    group.segments = segments.data();
    group.segment_count = segment_count;
    group.scale = Scale();
    group.states = states.data();
    group.sums = result.out.data();
    group.residuals = result.residuals.data();
    result.counts = AttendSparse(*kernels_, shape_, settings, group, scratch);
    Finish(states, &result.out);
    return result;
  }

  // The exact kernel over all keys, partial by partial.
  std::vector<float> AttendExactly(const std::vector<std::vector<float>>& queries,
                                   const std::vector<int>& positions) {
    const auto rows = Rows(queries, positions);
    const auto width = static_cast<size_t>(shape_.value_width);
    std::vector<SoftmaxState> states(rows.size());
    std::vector<SoftmaxState> partial_states(rows.size());
    std::vector<float> sums(rows.size() * width);
    std::vector<float> partial_sums(sums.size());
    const int pages = positions.back() / kKvPageTokens + 1;
    constexpr int kPartialPages = kKvPartialKeys / kKvPageTokens;
    for (int first = 0; first < pages; first += kPartialPages) {
      std::vector<KeyBlock> blocks;
      for (int page = first; page < std::min(first + kPartialPages, pages); ++page) {
        blocks.push_back(Block(page));
      }
      AttentionPartial partial{};
      partial.rows = rows.data();
      partial.row_count = static_cast<int>(rows.size());
      partial.blocks = blocks.data();
      partial.block_count = static_cast<int>(blocks.size());
      partial.key_width = shape_.key_width;
      partial.value_width = shape_.value_width;
      partial.scale = Scale();
      partial.states = first == 0 ? states.data() : partial_states.data();
      partial.sums = first == 0 ? sums.data() : partial_sums.data();
      kernels_->attention_partial[static_cast<size_t>(kv_type_)](partial);
      for (size_t r = 0; r < rows.size() && first > 0; ++r) {
        kernels_->merge_partial(partial_states[r], &partial_sums[r * width], shape_.value_width,
                                &states[r], &sums[r * width]);
      }
    }
    Finish(states, &sums);
    return sums;
  }

 private:
  std::byte* Page(int page) { return pages_.data() + page * layout_.page_bytes(); }
  KeyBlock Block(int page) { return {Page(page), Page(page) + layout_.value_offset(0, 0), page}; }
  float Scale() const { return 1 / std::sqrt(static_cast<float>(shape_.key_width)); }
  static std::vector<AttentionRow> Rows(const std::vector<std::vector<float>>& queries,
                                        const std::vector<int>& positions) {
    std::vector<AttentionRow> rows;
    for (size_t r = 0; r < queries.size(); ++r) {
      rows.push_back({queries[r].data(), 0, positions[r] + 1});
    }
    return rows;
  }
  void Finish(const std::vector<SoftmaxState>& states, std::vector<float>* sums) const {
    kernels_->finish_rows(states.data(), sums->data(), static_cast<int>(states.size()),
                          shape_.value_width, nullptr, sums->data());
  }

  const KernelTable* kernels_;
  const SealedShape shape_;
  const DType kv_type_;
  const int keys_;
  const KvLayout layout_;
  std::vector<std::byte> pages_;
  std::vector<std::vector<std::byte>> segments_;
};

// Keys around forty centres, some far from them; the same for every caller.
inline std::vector<float> ClusteredRow(int width, int key, uint64_t seed) {
  const CounterRandom random(seed, 3);
  const auto number = static_cast<uint64_t>(key);
  const uint64_t cluster = random.Bits(number) % 40;
  std::vector<float> row = Normals(static_cast<size_t>(width), seed * 1000 + cluster);
  const std::vector<float> noise = Normals(row.size(), seed * 1'000'000 + 1000 + number);
  for (size_t d = 0; d < row.size(); ++d) row[d] = 1.5F * row[d] + 0.5F * noise[d];
  return row;
}

}  // namespace remontoir
