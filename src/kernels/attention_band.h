// Rows that go through a partial's keys together, and their softmax: dot products become weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/math_scalar.h"
#include "kernels/vector_math.h"

namespace remontoir {

// What the rows are doing with one tile of 64 keys.
template <class Words>
struct AttentionBand {
  static constexpr int kTileRowsMax = Words::kRegisters == 1 ? 12 : 6;  // of one product
  static constexpr int kRowsMax = 96;
  static constexpr int kStripRows = 24;  // that are through with a tile of keys before others start

  int rows;
  const float* query[kRowsMax];
  float* sum[kRowsMax];
  float factor[kRowsMax];     // from a dot product to a score in log2 units
  float reference[kRowsMax];  // scores weigh 2^(score - reference)
  float offset[kRowsMax];     // scalar::kSoftmaxBias - reference; 0: no reference yet
  bool settled[kRowsMax];     // the reference stands until a score is far above it
  float rescale[kRowsMax];    // of the sums so far
  bool moved;                 // some rescale of the strip is not 1
  bool fresh;                 // no tile has been added: the sums are still anything
  int begin[kRowsMax];        // keys of the tile that the row sees
  int end[kRowsMax];
  alignas(64) float lanes[kRowsMax][scalar::kLanes];     // sums of weights
  int strip;                                             // its first row
  alignas(64) float weights[kStripRows][kKvPageTokens];  // of the strip's rows

  float (*Weights(int r))[kKvPageTokens] { return weights + (r - strip); }
  const float (*Weights(int r) const)[kKvPageTokens] { return weights + (r - strip); }
};

template <class Words>
class AttentionSoftmax {
 public:
  using Band = AttentionBand<Words>;

  // Turns the dot products of a row into weights, adds them to its lanes and notes the factor that
  // brings older sums to its reference. kWhole: the row sees all of the tile.
  template <bool kWhole>
  static void Weigh(int r, Band* band) {
    float* weights = *band->Weights(r);
    const Keys keys = KeysOf(*band, r);
    const Floats factor = Words::Set(band->factor[r]);
    Floats offset = Words::Set(band->offset[r]);
    Floats biased[kPanels];
    Floats largest = Words::Set(kNoScore);
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) {
      biased[i] = Words::Set(kNoScore);
      if (!Sees<kWhole>(keys, i)) continue;
      biased[i] = Seen<kWhole>(
          keys, i, Words::MultiplyAdd(Words::Load(weights + i * kLanes), factor, offset));
      largest = Words::Larger(biased[i], largest);  // a NaN score moves no reference
    }
    band->rescale[r] = 1;
    const auto high = Words::Less(Words::Set(scalar::kSoftmaxBiasedMax), largest);
    if (!band->settled[r] || Words::Any(high)) [[unlikely]] {
      if (!Settle<kWhole>(largest, r, band)) return WeighFar<kWhole>(r, band);
      offset = Words::Set(band->offset[r]);
#pragma GCC unroll 4
      for (int i = 0; i < kPanels; ++i) {
        if (!Sees<kWhole>(keys, i)) continue;
        biased[i] = Seen<kWhole>(
            keys, i, Words::MultiplyAdd(Words::Load(weights + i * kLanes), factor, offset));
      }
    }
    Floats lanes = Words::Zero();
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) {
      if (!Sees<kWhole>(keys, i)) continue;
      const Floats whole = Words::Subtract(biased[i], offset);
      const Floats fraction =
          Words::MultiplySubtract(Words::Load(weights + i * kLanes), factor, whole);
      const Floats power =
          Words::Multiply(Math::Exp2OfFraction(fraction), Words::PowerOfBiased(biased[i]));
      const Floats weight =
          Words::Clear(Words::Less(biased[i], Words::Set(scalar::kSoftmaxBiasedMin)), power);
      Words::Store(weights + i * kLanes, weight);
      lanes = Words::Add(lanes, weight);
    }
    AddLanes(r, lanes, band);
  }

  // Dot products to what a soft cap makes of them, in units of the cap.
  static void Cap(const AttentionPartial& partial, int r, Band* band) {
    const Floats factor = Words::Set(partial.scale / partial.soft_cap);
    for (int i = 0; i < kPanels; ++i) {
      if (!Sees<false>(KeysOf(*band, r), i)) continue;
      float* dots = *band->Weights(r) + i * kLanes;
      Words::Store(dots, Math::Tanh(Words::Multiply(Words::Load(dots), factor)));
    }
  }

 private:
  using Floats = typename Words::Floats;
  using Math = VectorMath<Words>;

  static constexpr int kLanes = scalar::kLanes;
  static constexpr int kPanels = kKvPageTokens / kLanes;
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();

  // What a row sees of the tile: a copy, as compilers read the band's again after every store.
  struct Keys {
    int begin;
    int end;
  };
  static Keys KeysOf(const Band& band, int r) { return {band.begin[r], band.end[r]}; }

  // Whether the row sees some of a panel.
  template <bool kWhole>
  static bool Sees(const Keys& keys, int panel) {
    return kWhole || (panel * kLanes < keys.end && (panel + 1) * kLanes > keys.begin);
  }
  // Minus infinity where the row doesn't look.
  template <bool kWhole>
  static Floats Seen(const Keys& keys, int panel, Floats x) {
    if constexpr (kWhole) return x;
    return Words::Select(Words::LanesBetween(panel * kLanes, keys.begin, keys.end), x,
                         Words::Set(kNoScore));
  }

  static void AddLanes(int r, Floats lanes, Band* band) {
    const Floats before = Words::Load(band->lanes[r]);
    Words::Store(band->lanes[r], Words::MultiplyAdd(before, Words::Set(band->rescale[r]), lanes));
  }

  // Moves the row's reference up to its largest score; without a reference yet, that is the largest
  // lane of `largest`. False: it is too large for whole numbers.
  template <bool kWhole>
  [[gnu::always_inline]] static bool Settle(Floats largest, int r, Band* band) {
    if (band->offset[r] != 0) [[unlikely]] {
      const Floats factor = Words::Set(band->factor[r]);
      const Keys keys = KeysOf(*band, r);
      largest = Words::Set(kNoScore);
      for (int i = 0; i < kPanels; ++i) {
        if (!Sees<kWhole>(keys, i)) continue;
        const Floats score = Words::Multiply(Words::Load(*band->Weights(r) + i * kLanes), factor);
        largest = Words::Larger(Seen<kWhole>(keys, i, score), largest);
      }
    }
    const scalar::SoftmaxReference moved =
        scalar::MoveReference(band->reference[r], Words::LargestLane(largest));
    band->reference[r] = moved.reference;
    band->rescale[r] = moved.rescale;
    band->moved |= moved.rescale != 1;
    band->offset[r] = moved.offset;
    band->settled[r] = moved.settled;
    return !moved.far;
  }

  // The weights of scores that differ by more than float32 tells whole numbers apart.
  template <bool kWhole>
  [[gnu::noinline]] static void WeighFar(int r, Band* band) {
    const Floats factor = Words::Set(band->factor[r]);
    const Floats reference = Words::Set(band->reference[r]);
    const Keys keys = KeysOf(*band, r);
    Floats lanes = Words::Zero();
    for (int i = 0; i < kPanels; ++i) {
      if (!Sees<kWhole>(keys, i)) continue;
      float* at = *band->Weights(r) + i * kLanes;
      const Floats score = Words::Subtract(Words::Multiply(Words::Load(at), factor), reference);
      const Floats weight = Math::Exp2UpToZero(Seen<kWhole>(keys, i, score));
      Words::Store(at, weight);
      lanes = Words::Add(lanes, weight);
    }
    AddLanes(r, lanes, band);
  }
};

}  // namespace remontoir
