// Every length, every index: what comes from outside trips no check behind.
#include "backend/attention_check.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "base/check.h"

namespace remontoir {
namespace {

Status Wrong(std::string_view member, const std::string& wanted) {
  return InvalidArgument("attention batch, " + std::string(member) + ": wanted " + wanted);
}

Status CheckSize(std::string_view member, size_t size, int64_t wanted) {
  if (static_cast<int64_t>(size) == wanted) return Status::Ok();
  return Wrong(member, std::to_string(wanted) + " values, not " + std::to_string(size));
}

Status CheckSequences(const AttentionBatch& batch) {
  const size_t entries = batch.cu_seqlens_q.size();
  if (entries == 0 || batch.cu_seqlens_k.size() != entries || batch.cu_seqlens_q[0] != 0 ||
      batch.cu_seqlens_k[0] != 0) {
    return Wrong("cu_seqlens_q and cu_seqlens_k", "as many of both, from 0 on");
  }
  for (size_t s = 0; s + 1 < entries; ++s) {
    const int64_t rows = int64_t{batch.cu_seqlens_q[s + 1]} - batch.cu_seqlens_q[s];
    // Sums that overflow would fall.
    const bool rising = batch.cu_seqlens_k[s + 1] >= batch.cu_seqlens_k[s];
    const int64_t keys = rising ? batch.cu_seqlens_k[s + 1] - batch.cu_seqlens_k[s] : -1;
    if (rows < 0 || keys < rows || keys > std::numeric_limits<int32_t>::max() - kKvPartialKeys) {
      return Wrong("cu_seqlens_q and cu_seqlens_k",
                   "a key for each row of sequence " + std::to_string(s));
    }
  }
  return Status::Ok();
}

Status CheckShapes(const AttentionBatch& batch) {
  if (batch.layout == nullptr) return Wrong("layout", "one");
  if (batch.layer < 0 || batch.layer >= batch.layout->layer_count()) {
    return Wrong("layer", "one of the layout's " + std::to_string(batch.layout->layer_count()));
  }
  const KvLayerShape& shape = batch.layout->layer(batch.layer);
  if (batch.heads < 1 || batch.heads % shape.kv_heads != 0) {
    return Wrong("heads", "a multiple of the " + std::to_string(shape.kv_heads) + " KV heads");
  }
  const int64_t heads = int64_t{batch.cu_seqlens_q.back()} * batch.heads;
  REM_RETURN_IF_ERROR(CheckSize("queries", batch.queries.size(), heads * shape.key_width));
  REM_RETURN_IF_ERROR(CheckSize("out", batch.out.size(), heads * shape.value_width));
  if (!batch.lse.empty()) REM_RETURN_IF_ERROR(CheckSize("lse", batch.lse.size(), heads));
  if (!batch.sink_logits.empty()) {
    REM_RETURN_IF_ERROR(CheckSize("sink_logits", batch.sink_logits.size(), batch.heads));
  }
  if (batch.window < 0) return Wrong("window", "0 or more");
  if (batch.temperature_length < 0 || batch.temperature_length == 1) {
    return Wrong("temperature_length", "0, or 2 or more");
  }
  if (batch.documents.empty()) return Status::Ok();
  REM_RETURN_IF_ERROR(CheckSize("documents", batch.documents.size(), batch.cu_seqlens_k.back()));
  for (size_t s = 0; s + 1 < batch.cu_seqlens_k.size(); ++s) {
    const auto first = batch.documents.begin() + batch.cu_seqlens_k[s];
    if (!std::is_sorted(first, batch.documents.begin() + batch.cu_seqlens_k[s + 1])) {
      return Wrong("documents", "numbers that don't fall in sequence " + std::to_string(s));
    }
  }
  return Status::Ok();
}

Status CheckPages(const AttentionBatch& batch) {
  const auto& begin = batch.page_table_begin;
  if (batch.kv_pages.base == nullptr || batch.kv_pages.page_bytes < batch.layout->page_bytes()) {
    return Wrong("kv_pages",
                 "pages of the layout's " + std::to_string(batch.layout->page_bytes()) + " bytes");
  }
  if (begin.size() != batch.cu_seqlens_k.size() || begin[0] < 0) {
    return Wrong("page_table_begin", "an entry for each of cu_seqlens_k");
  }
  for (size_t s = 0; s + 1 < begin.size(); ++s) {
    const int64_t keys = batch.cu_seqlens_k[s + 1] - batch.cu_seqlens_k[s];
    const int64_t pages = (keys + kKvPageTokens - 1) / kKvPageTokens;
    if (begin[s + 1] - int64_t{begin[s]} < pages ||
        static_cast<size_t>(begin[s + 1]) > batch.page_table.size()) {
      return Wrong("page_table",
                   std::to_string(pages) + " pages for sequence " + std::to_string(s));
    }
    for (int64_t p = 0; p < pages; ++p) {
      const int32_t page = Index(batch.page_table[static_cast<size_t>(begin[s] + p)]);
      if (page < 0 || page >= batch.page_count) {
        return Wrong("page_table", "pages below page_count, " + std::to_string(batch.page_count) +
                                       ", not " + std::to_string(page));
      }
    }
  }
  return Status::Ok();
}

// A group's list: ascending blocks of its sequence, of a rank that they can have.
bool IsList(const TileSchedule& schedule, int group, int64_t keys) {
  const auto g = static_cast<size_t>(group);
  const int32_t begin = schedule.list_begin[g];
  const int32_t end = schedule.list_begin[g + 1];
  if (begin < 0 || end < begin || static_cast<size_t>(end) > schedule.block.size()) return false;
  if (begin == end) return true;
  const std::span<const int32_t> list = schedule.list(group);
  return list.front() >= 0 && int64_t{list.back()} * schedule.keys_per_block < keys &&
         std::adjacent_find(list.begin(), list.end(),
                            [](int32_t a, int32_t b) { return a >= b; }) == list.end() &&
         schedule.list_rank[g] >= 0 && schedule.list_rank[g] <= list.front();
}

Status CheckSchedule(const AttentionBatch& batch, std::vector<uint8_t>* seen) {
  if (batch.schedule == nullptr) return Wrong("schedule", "one");
  const TileSchedule& schedule = *batch.schedule;
  const KvLayerShape& shape = batch.layout->layer(batch.layer);
  if (schedule.keys_per_block < kKvPanelKeys || kKvPartialKeys % schedule.keys_per_block != 0) {
    return Wrong("schedule", "blocks of 16, 32, 64 ... 1024 keys");
  }
  if (schedule.heads != 1 && schedule.heads != shape.kv_heads && schedule.heads != batch.heads) {
    return Wrong("schedule", "lists for 1 head, the KV heads or the query heads");
  }
  const size_t groups = schedule.group_rows.size();
  if (schedule.group_sequence.size() != groups || schedule.group_head.size() != groups ||
      schedule.group_first_row.size() != groups || schedule.list_begin.size() != groups + 1 ||
      schedule.list_rank.size() != groups) {
    return Wrong("schedule", "an entry of every kind for each group");
  }
  const auto rows_all = static_cast<size_t>(batch.cu_seqlens_q.back());
  seen->assign(rows_all * static_cast<size_t>(schedule.heads), 0);
  for (size_t g = 0; g < groups; ++g) {
    const auto wrong = [g](const char* wanted) {
      return Wrong("schedule, group " + std::to_string(g), wanted);
    };
    const auto s = static_cast<size_t>(schedule.group_sequence[g]);
    if (schedule.group_sequence[g] < 0 || s + 1 >= batch.cu_seqlens_q.size()) {
      return wrong("a sequence of the batch");
    }
    const int32_t head = schedule.heads == 1 ? 0 : schedule.group_head[g];
    const int64_t first = schedule.group_first_row[g];
    const int64_t rows = schedule.group_rows[g];
    if (head < 0 || head >= schedule.heads || rows < 1 || rows > kRowGroupPositions ||
        first < batch.cu_seqlens_q[s] || first + rows > batch.cu_seqlens_q[s + 1]) {
      return wrong("1 to 8 rows of its sequence and a head that has lists");
    }
    if (!IsList(schedule, static_cast<int>(g), batch.cu_seqlens_k[s + 1] - batch.cu_seqlens_k[s])) {
      return wrong("ascending blocks of its sequence, the first one's rank not above it");
    }
    for (int64_t r = first; r < first + rows; ++r) {
      uint8_t& row = (*seen)[static_cast<size_t>(head) * rows_all + static_cast<size_t>(r)];
      if (row++ != 0) return wrong("rows that no other group has");
    }
  }
  if (std::find(seen->begin(), seen->end(), 0) != seen->end()) {
    return Wrong("schedule", "a group for every row and head");
  }
  return Status::Ok();
}

}  // namespace

Status CheckAttentionBatch(const AttentionBatch& batch, bool paged, std::vector<uint8_t>* seen) {
  REM_RETURN_IF_ERROR(CheckSequences(batch));
  REM_RETURN_IF_ERROR(CheckShapes(batch));
  if (paged) REM_RETURN_IF_ERROR(CheckPages(batch));
  return CheckSchedule(batch, seen);
}

}  // namespace remontoir
