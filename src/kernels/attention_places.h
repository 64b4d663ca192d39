// Where the 64 keys and values of a tile lie, and which memory to ask for while there is arithmetic
// to do: few rows are bound by waiting for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "tensor/dtype.h"
#include "tensor/kv_layout.h"

namespace remontoir {

inline constexpr int64_t kKvScaleBytes = 2;  // a float16

// Of one element of keys and values.
template <DType kType>
inline constexpr int64_t kKvElementBytes = kType == DType::kF32    ? 4
                                           : kType == DType::kQ8_0 ? 1
                                                                   : 2;

// `Words` says for which instruction set the functions are compiled, so that no other's are linked.

// The tile that comes next.
template <class Words>
struct TileAhead {
  KeyPanel panels[kTilePanels];

  template <DType kType>
  const std::byte* Keys(int panel, int key_width) const {
    return panels[panel].keys + panels[panel].slot * key_width * kKvElementBytes<kType>;
  }
  template <DType kType>
  const std::byte* Values(int panel, int value_width) const {
    return panels[panel].values + panels[panel].slot * value_width * kKvElementBytes<kType>;
  }
};

// In one page.
template <class Words>
struct KeysInPage {
  static constexpr bool kOnePage = true;

  const std::byte* keys;
  const std::byte* values;
  TileAhead<Words> ahead;

  template <DType kType>
  const std::byte* Keys(int panel, int key_width) const {
    return keys + panel * kKvPanelKeys * key_width * kKvElementBytes<kType>;
  }
  const std::byte* KeyScales(int panel, int key_width) const {
    return keys + KvScalesOffset(key_width) + panel * kKvPanelKeys * kKvScaleBytes;
  }
  template <DType kType>
  const std::byte* Value(int key, int value_width) const {
    return values + key * value_width * kKvElementBytes<kType>;
  }
  const std::byte* ValueScales(int key, int value_width, int column) const {
    return values + KvScalesOffset(value_width) +
           (column / kKvScaleBlock * kKvPageTokens + key) * kKvScaleBytes;
  }
  // The part of the next tile's keys to ask for while `run_bytes` of each value from `key` on are
  // added, from `column` on: line for line.
  template <DType kType>
  const std::byte* KeysAhead(int key, int /*key_width*/, int column, int64_t run_bytes) const {
    return ahead.panels[0].keys + column * kKvPageTokens * kKvElementBytes<kType> + key * run_bytes;
  }
  // The same values of the next tile.
  template <DType kType>
  const std::byte* ValueAhead(int key, int value_width) const {
    return ahead.panels[0].values + key * value_width * kKvElementBytes<kType>;
  }
};

// In panels of any pages. Panels behind the last one stand for it: their keys are never seen.
template <class Words>
struct KeysInPanels {
  static constexpr bool kOnePage = false;

  const KeyPanel* panels;
  int last;  // panel of this tile
  TileAhead<Words> ahead;

  const KeyPanel& panel(int index) const { return panels[std::min(index, last)]; }
  template <DType kType>
  static const std::byte* KeysOf(const KeyPanel& panel, int key_width) {
    return panel.keys + panel.slot * key_width * kKvElementBytes<kType>;
  }
  template <DType kType>
  const std::byte* Keys(int index, int key_width) const {
    return KeysOf<kType>(panel(index), key_width);
  }
  const std::byte* KeyScales(int index, int key_width) const {
    return panel(index).keys + KvScalesOffset(key_width) + panel(index).slot * kKvScaleBytes;
  }
  template <DType kType>
  const std::byte* Value(int key, int value_width) const {
    const KeyPanel& at = panel(key / kKvPanelKeys);
    return at.values + (at.slot + key % kKvPanelKeys) * value_width * kKvElementBytes<kType>;
  }
  const std::byte* ValueScales(int key, int value_width, int column) const {
    const KeyPanel& at = panel(key / kKvPanelKeys);
    return at.values + KvScalesOffset(value_width) +
           (column / kKvScaleBlock * kKvPageTokens + at.slot + key % kKvPanelKeys) * kKvScaleBytes;
  }
  template <DType kType>
  const std::byte* KeysAhead(int key, int key_width, int column, int64_t run_bytes) const {
    return ahead.template Keys<kType>(key / kKvPanelKeys, key_width) +
           column * kKvPanelKeys * kKvElementBytes<kType> + key % kKvPanelKeys * run_bytes;
  }
  template <DType kType>
  const std::byte* ValueAhead(int key, int value_width) const {
    return ahead.template Values<kType>(key / kKvPanelKeys, value_width) +
           key % kKvPanelKeys * value_width * kKvElementBytes<kType>;
  }
};

}  // namespace remontoir
