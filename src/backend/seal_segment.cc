// The order of a segment's keys by balanced bisection, and what is known of each block.
#include "backend/seal_segment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

constexpr int kSplitIterations = 3;
constexpr int kBlockIterations = 4;

int64_t RoundUpToSixteen(int64_t width) { return (width + 15) / 16 * 16; }

// Unsigned numbers in the order of the floats; NaNs have their places too, so that it is an order.
uint32_t RankOf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x8000'0000U;
}

void StoreHalf(float x, std::byte* at) {
  const uint16_t half = FloatToHalf(x);
  std::memcpy(at, &half, sizeof half);
}

}  // namespace

void SealScratch::Reserve(int32_t key_width, int32_t value_width) {
  const auto keys = static_cast<size_t>(RoundUpToSixteen(key_width));
  const auto widest = static_cast<size_t>(RoundUpToSixteen(std::max(key_width, value_width)));
  const auto grow = [](auto* values, size_t count) {
    values->resize(std::max(values->size(), count));
  };
  grow(&rows_, kSegmentKeys * widest);
  grow(&projections_, size_t{kSegmentKeys});
  grow(&columns_, (3 * kPanelBlocks + 1) * std::max(keys, widest));
  grow(&ranks_, size_t{2 * kSegmentKeys});
  grow(&order_, size_t{kSegmentKeys});
  grow(&order_before_, size_t{kSegmentKeys});
}

int64_t SealScratch::bytes() const {
  return static_cast<int64_t>(
      (rows_.size() + projections_.size() + columns_.size()) * sizeof(float) +
      ranks_.size() * sizeof(uint64_t) + (order_.size() + order_before_.size()) * sizeof(uint16_t));
}

class SegmentSealer {
 public:
  SegmentSealer(const KernelTable& kernels, const SealedShape& shape, SealScratch& scratch)
      : kernels_(kernels), shape_(shape), scratch_(scratch) {
    REM_CHECK(scratch.rows_.size() >=
                  static_cast<size_t>(kSegmentKeys * RoundUpToSixteen(std::max(shape.key_width,
                                                                               shape.value_width))),
              "scratch for heads of this width");
  }

  void Run(const SegmentPages& pages, std::byte* out) {
    const SealedOffsets offsets = OffsetsOf(shape_);
    LoadKeys(pages);
    OrderKeys();
    StoreKeys(out + offsets.keys);
    StoreStatistics(out + offsets.statistics);
    std::memcpy(out + offsets.order, scratch_.order_.data(), kSegmentKeys * sizeof(uint16_t));
    const int64_t stride = shape_.mean_stride();
    for (int page = 0; page < kSegmentPages; ++page) {
      kernels_.load_values(pages.values[page], shape_.value_width, pages.type, stride,
                           scratch_.rows_.data() + page * kKvPageTokens * stride);
    }
    StoreValues(out + offsets.values);
    StoreMeans(out + offsets.means);
  }

 private:
  int64_t stride() const { return RoundUpToSixteen(shape_.key_width); }

  void LoadKeys(const SegmentPages& pages) {
    float* rows = scratch_.rows_.data();
    for (int page = 0; page < kSegmentPages; ++page) {
      kernels_.load_keys(pages.keys[page], shape_.key_width, pages.type, stride(),
                         rows + page * kKvPageTokens * stride());
    }
    const int64_t padding = stride() - shape_.key_width;
    for (int key = 0; key < kSegmentKeys && padding > 0; ++key) {
      std::fill_n(rows + key * stride() + shape_.key_width, padding, 0.0F);
    }
  }

  void OrderKeys() {
    std::iota(scratch_.order_.begin(), scratch_.order_.end(), uint16_t{0});
    for (int count = kSegmentKeys; count > shape_.block_keys; count /= 2) {
      for (int begin = 0; begin < kSegmentKeys; begin += count) Split(begin, count);
    }
  }

  // Puts the half of the keys with the smaller projections first.
  void Split(int begin, int count) {
    uint16_t* order = scratch_.order_.data() + begin;
    PrincipalAxis axis = AxisAt(0);
    kernels_.principal_axis({scratch_.rows_.data(), stride(), order, count}, kSplitIterations,
                            &axis);
    uint64_t* ranks = scratch_.ranks_.data();
    uint64_t* sorted = ranks + kSegmentKeys;
    for (int i = 0; i < count; ++i) {
      ranks[i] =
          static_cast<uint64_t>(RankOf(axis.projections[i])) << 32 | static_cast<uint64_t>(i);
    }
    std::copy_n(ranks, count, sorted);
    std::nth_element(sorted, sorted + count / 2, sorted + count);
    const uint64_t middle = sorted[count / 2];
    uint16_t* before = scratch_.order_before_.data();
    std::copy_n(order, count, before);
    uint16_t* low = order;
    uint16_t* high = order + count / 2;
    for (int i = 0; i < count; ++i) *(ranks[i] < middle ? low++ : high++) = before[i];
  }

  // Columns of block b of a panel: mean, scaled axis and rest, [stride] each; the axis of length 1
  // that they come from is shared by all.
  float* Columns(int b, int statistic) {
    return scratch_.columns_.data() + (3 * b + statistic) * stride();
  }
  PrincipalAxis AxisAt(int b) {
    return {Columns(b, 0), scratch_.columns_.data() + 3 * kPanelBlocks * stride(),
            scratch_.projections_.data()};
  }

  void StoreKeys(std::byte* out) {
    const int64_t page_bytes = kKvPageTokens * RowBytes(shape_.type, shape_.key_width);
    for (int i = 0; i < kSegmentKeys; ++i) {
      const float* row = scratch_.rows_.data() + scratch_.order_[static_cast<size_t>(i)] * stride();
      kernels_.store_key(row, shape_.key_width, shape_.type, i % kKvPageTokens,
                         out + i / kKvPageTokens * page_bytes);
    }
  }

  void StoreStatistics(std::byte* out) {
    for (int panel = 0; panel < shape_.panels(); ++panel) {
      for (int b = 0; b < kPanelBlocks; ++b) {
        const int first = (panel * kPanelBlocks + b) * shape_.block_keys;
        const KeySet keys = {scratch_.rows_.data(), stride(), scratch_.order_.data() + first,
                             shape_.block_keys};
        PrincipalAxis axis = AxisAt(b);
        kernels_.principal_axis(keys, kBlockIterations, &axis);
        kernels_.block_spread(keys, axis, Columns(b, 1), Columns(b, 2));
      }
      kernels_.pack_statistics({scratch_.columns_.data(), stride(), shape_.key_width, out});
      out += StatisticsPanelBytes(shape_.key_width);
    }
  }

  const float* ValueAt(int i) const {
    return scratch_.rows_.data() + scratch_.order_[static_cast<size_t>(i)] * shape_.mean_stride();
  }

  void StoreValues(std::byte* out) {
    const int64_t page_bytes = kKvPageTokens * RowBytes(shape_.type, shape_.value_width);
    for (int i = 0; i < kSegmentKeys; ++i) {
      kernels_.store_value(ValueAt(i), shape_.value_width, shape_.type, i % kKvPageTokens,
                           out + i / kKvPageTokens * page_bytes);
    }
  }

  void StoreMeans(std::byte* out) {
    const int64_t width = shape_.mean_stride();
    float* mean = scratch_.columns_.data();
    const float inverse = 1.0F / static_cast<float>(shape_.block_keys);
    for (int block = 0; block < shape_.blocks(); ++block) {
      std::fill_n(mean, width, 0.0F);
      for (int i = block * shape_.block_keys; i < (block + 1) * shape_.block_keys; ++i) {
        const float* value = ValueAt(i);
        for (int d = 0; d < shape_.value_width; ++d) mean[d] += value[d];
      }
      for (int64_t d = 0; d < width; ++d, out += 2) StoreHalf(mean[d] * inverse, out);
    }
  }

  const KernelTable& kernels_;
  const SealedShape& shape_;
  SealScratch& scratch_;
};

void SealSegment(const KernelTable& kernels, const SealedShape& shape, const SegmentPages& pages,
                 SealScratch& scratch, std::byte* out) {
  REM_CHECK(shape.type == SealedType(pages.type), "sealed as the KV type says");
  SegmentSealer(kernels, shape, scratch).Run(pages, out);
}

}  // namespace remontoir
