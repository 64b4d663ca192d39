// What one row group of the sparse mode read, as JSON: attention_picture MODEL. Drawn by
// scripts/plot_attention --choice.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "api/json_writer.h"
#include "apps/bench_attention_data.h"
#include "backend/backend.h"
#include "formats/printable.h"
#include "kernels/kernel_table.h"
#include "tests/support/sparse_head.h"

namespace remontoir {
namespace {

constexpr int kTokens = 8192;
constexpr int kLayer = 5;
constexpr int kHead = 4;
constexpr int kRows = 8;
constexpr int kFirstPosition = kTokens - kRows;
constexpr int kKeysPerCell = 8;
constexpr size_t kNameCharactersMax = 80;

// What the kernels were asked when they dropped the chosen blocks, row after row.
struct Seen {
  BlockTotals (*drop_blocks)(const BlockDrop&) = nullptr;
  std::vector<uint16_t> chosen;
  std::vector<double> weights;  // of all rows together
};
Seen& SeenOnce() {
  static Seen seen;
  return seen;
}

BlockTotals LookOn(const BlockDrop& drop) {
  Seen& seen = SeenOnce();
  seen.chosen.assign(drop.chosen, drop.chosen + drop.panel_count);
  seen.weights.resize(seen.chosen.size() * kPanelBlocks);
  double sum = 0;
  for (size_t block = 0; block < seen.weights.size(); ++block) sum += drop.weights[block];
  for (size_t block = 0; block < seen.weights.size(); ++block) {
    seen.weights[block] += drop.weights[block] / sum / kRows;
  }
  return seen.drop_blocks(drop);
}

std::vector<float> RowOf(const std::vector<float>& rows, int position, int heads, int head,
                         int width) {
  const auto begin = rows.begin() + (int64_t{position} * heads + head) * width;
  return {begin, begin + width};
}

bool IsChosen(size_t block) {
  return (SeenOnce().chosen[block / kPanelBlocks] >> block % kPanelBlocks & 1U) != 0;
}

// One digit for every eight neighbouring keys: how many of them were read.
std::string ReadByPosition(const SparseHead& head, const std::vector<std::byte>& segment,
                           size_t first_block) {
  std::string digits(kSegmentKeys / kKeysPerCell, '0');
  std::vector<uint16_t> order(kSegmentKeys);
  std::memcpy(order.data(), segment.data() + OffsetsOf(head.shape()).order, order.size() * 2);
  for (size_t place = 0; place < order.size(); ++place) {
    if (!IsChosen(first_block + place / static_cast<size_t>(head.shape().block_keys))) continue;
    ++digits[order[place] / kKeysPerCell];
  }
  return digits;
}

void WriteSegment(JsonWriter& json, const SparseHead& head, const std::vector<std::byte>& segment,
                  size_t first_block) {
  std::string chosen;
  json.BeginObject();
  json.Key("read").String(ReadByPosition(head, segment, first_block));
  json.Key("log2_share").BeginArray();
  for (size_t i = 0; i < static_cast<size_t>(head.shape().blocks()); ++i) {
    char share[32];
    std::snprintf(share, sizeof share, "%.1f",
                  std::log2(std::max(1e-30, SeenOnce().weights[first_block + i])));
    json.Raw(share);
    chosen += IsChosen(first_block + i) ? '1' : '0';
  }
  json.EndArray();
  json.Key("chosen").String(chosen);
  json.EndObject();
}

Status Print(const std::string& file) {
  REM_ASSIGN_OR_RETURN(const KernelTable* kernels, CpuKernels());
  const std::vector<int32_t> layers = {kLayer};
  REM_ASSIGN_OR_RETURN(const std::vector<CapturedAttention> captured,
                       CaptureLayers(file, "", kTokens, layers));
  const CapturedAttention& layer = captured[0];
  const int query_head = std::min(kHead, layer.heads - 1);
  const int kv_head = query_head / layer.heads_per_kv();
  KernelTable looked_on = *kernels;
  SeenOnce().drop_blocks = kernels->drop_blocks;
  looked_on.drop_blocks = LookOn;
  SparseHead head(
      looked_on, {.key_width = layer.key_width, .value_width = layer.value_width}, kTokens,
      [&](int key) { return RowOf(layer.keys, key, layer.kv_heads, kv_head, layer.key_width); },
      [&](int key) {
        return RowOf(layer.values, key, layer.kv_heads, kv_head, layer.value_width);
      });
  head.Seal();
  std::vector<std::vector<float>> queries;
  std::vector<int> positions;
  for (int row = 0; row < kRows; ++row) {
    positions.push_back(kFirstPosition + row);
    queries.push_back(
        RowOf(layer.queries, positions.back(), layer.heads, query_head, layer.key_width));
  }
  head.Attend({}, queries, positions);
  if (SeenOnce().chosen.empty()) return NotFound("the row group read all of its blocks");

  JsonWriter json;
  json.BeginObject();
  json.Key("model").String(Printable(file.substr(file.rfind('/') + 1), kNameCharactersMax));
  json.Key("layer").Int(layer.layer);
  json.Key("head").Int(query_head);
  json.Key("position").Int(kFirstPosition);
  json.Key("segments").BeginArray();
  size_t first_block = 0;
  for (const std::vector<std::byte>& segment : head.segments()) {
    WriteSegment(json, head, segment, first_block);
    first_block += static_cast<size_t>(head.shape().blocks());
  }
  json.EndArray();
  json.EndObject();
  std::printf("%s\n", json.Take().c_str());
  return Status::Ok();
}

}  // namespace
}  // namespace remontoir

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: attention_picture MODEL\n", stderr);
    return 2;
  }
  const remontoir::Status status = remontoir::Print(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "attention_picture: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
