// The only attention interface: ragged queries against paged keys and values.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/kv_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {

// b sequences; rows of sequence s are cu_seqlens_q[s] ... cu_seqlens_q[s + 1] of `queries`, the
// last of its cu_seqlens_k[s + 1] - cu_seqlens_k[s] keys.
struct AttentionBatch {
  std::span<const float> queries;  // [rows][heads * key_width], rotated
  std::span<float> out;            // [rows][heads * value_width]
  int32_t layer = 0;
  int32_t heads = 0;
  std::span<const KvPageId> page_table;       // all sequences' pages, one after the other
  std::span<const int32_t> page_table_begin;  // [b + 1] into page_table
  std::span<const int32_t> cu_seqlens_q;      // [b + 1]
  std::span<const int64_t> cu_seqlens_k;      // [b + 1]
  const TileSchedule* schedule = nullptr;
  float scale = 1;
  float soft_cap = 0;                  // 0 = off
  std::span<const float> sink_logits;  // [heads] or empty
  int32_t window = 0;                  // 0 = all earlier keys
  int32_t temperature_length = 0;      // 0 = off (program.h: AttentionOp)
};

}  // namespace remontoir
