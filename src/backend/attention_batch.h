// The only attention interface: ragged queries against paged keys and values, along visiting lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/kv_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {

// Where KV pages are, of the arena and dynamic ones.
struct KvPages {
  std::byte* base = nullptr;
  int64_t page_bytes = 0;

  std::byte* Page(KvPageId page) const { return base + Index(page) * page_bytes; }
};

// b sequences; rows of sequence s are cu_seqlens_q[s] ... cu_seqlens_q[s + 1] of `queries`, the
// last of its cu_seqlens_k[s + 1] - cu_seqlens_k[s] keys. All spans are the caller's.
struct AttentionBatch {
  std::span<const float> queries;  // [rows][heads * key_width], rotated
  std::span<float> out;            // [rows][heads * value_width], written
  // [rows][heads] or empty, written: the natural logarithm of the sum of e^score over the keys that
  // the row saw, minus infinity where it saw none. Sink logits are not in it.
  std::span<float> lse;
  int32_t layer = 0;  // of the layout
  int32_t heads = 0;  // query heads; they share the layout's KV heads evenly, in order
  const KvLayout* layout = nullptr;
  KvPages kv_pages;
  int32_t page_count = 0;                     // of kv_pages, for who checks the table
  std::span<const KvPageId> page_table;       // all sequences' pages, one after the other
  std::span<const int32_t> page_table_begin;  // [b + 1] into page_table
  std::span<const int32_t> cu_seqlens_q;      // [b + 1]
  std::span<const int64_t> cu_seqlens_k;      // [b + 1]
  const TileSchedule* schedule = nullptr;
  float scale = 1;
  float soft_cap = 0;                  // 0 = off; else cap * tanh(score / cap)
  std::span<const float> sink_logits;  // [heads] or empty
  int32_t window = 0;                  // 0 = all earlier keys
  int32_t temperature_length = 0;      // 0 = off (program.h: AttentionOp)
  // Empty, or the document of every key, sequence by sequence, never falling within one: rows see
  // keys of their own document only.
  std::span<const int32_t> documents;
};

}  // namespace remontoir
