// One engine's room source over a region of each shape's size, without a model behind it.
#include "apps/bench_kv_rooms.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "backend/kv_memory.h"
#include "base/worker_pool.h"
#include "engine/memory_plan.h"
#include "engine/room.h"

namespace remontoir {
namespace {

constexpr int32_t kArenaTimes = 40;  // measurements of the arena for one of the system
constexpr int32_t kLengths[] = {2048, 4096, 8192, 16384, 32768};
constexpr int32_t kGenerated = 256;  // of each length, the rest is prompt

struct Shape {
  const char* name;
  int32_t layers;
  KvLayerShape layer;
};

constexpr Shape kShapes[] = {
    {"SmolLM2-135M", 30, {.kv_heads = 3, .key_width = 64, .value_width = 64}},
    {"7B", 32, {.kv_heads = 8, .key_width = 128, .value_width = 128}},
};

// The memory alone; nobody computes here.
class MemoryStore final : public KvStore {
 public:
  explicit MemoryStore(KvMemory memory) : memory_(std::move(memory)) {}

  KvPageRange dynamic_pages() const override { return memory_.dynamic_pages(); }
  int32_t dynamic_granule() const override { return memory_.granule(); }
  Status TakeDynamic(KvPageRange range) override { return memory_.TakeDynamic(range); }
  void GiveBackDynamic(KvPageRange range) override { memory_.GiveBackDynamic(range); }
  // No prompt here begins like another.
  void CopyKvTokens(KvPageId, KvPageId, int32_t) override {}

 private:
  KvMemory memory_;
};

RoomTimes TimesOf(std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(times_us.size())));
    return times_us[std::max<size_t>(rank, 1) - 1];
  };
  return {static_cast<int32_t>(times_us.size()), at(0.5), at(0.99), times_us.back()};
}

// Every prompt is its own, so that nothing is found in the prefix cache.
Request RequestOf(int32_t tokens, int32_t number) {
  Request request;
  request.max_tokens = kGenerated;
  for (int32_t i = 0; i < tokens - kGenerated; ++i) request.prompt.push_back(TokenId(i));
  request.prompt[0] = TokenId(number);
  return request;
}

Result<double> TimeRoom(SequenceRoom& room, const Request& request) {
  const auto begin = std::chrono::steady_clock::now();
  const Status taken = room.Take(request, INT32_MAX);
  const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - begin;
  if (!taken.ok()) return taken;
  room.Release({});
  return passed.count();
}

Status MeasureLength(RoomSource& source, int32_t rounds, RoomRow* row) {
  SequenceRoom room(source);
  std::vector<double> bucketed;
  std::vector<double> dynamic;
  for (int32_t round = 0; round < rounds; ++round) {
    for (int32_t i = 0; i < kArenaTimes; ++i) {
      const Request request = RequestOf(row->tokens, round * kArenaTimes + i);
      REM_ASSIGN_OR_RETURN(const double us, TimeRoom(room, request));
      bucketed.push_back(us);
    }
    Request request = RequestOf(row->tokens, -1 - round);
    request.room.dynamic = true;
    REM_ASSIGN_OR_RETURN(const double us, TimeRoom(room, request));
    dynamic.push_back(us);
  }
  row->bucketed = TimesOf(std::move(bucketed));
  row->dynamic = TimesOf(std::move(dynamic));
  return Status::Ok();
}

Status MeasureShape(const Shape& shape, int32_t rounds, std::vector<RoomRow>* rows) {
  const KvLayout layout(std::vector<KvLayerShape>(static_cast<size_t>(shape.layers), shape.layer));
  const int64_t fitting = FreeMemoryBytes() / 2 / (2 * layout.token_bytes());  // both ways at once
  std::vector<RoomRow> measured;
  int32_t longest = 0;
  for (const int32_t tokens : kLengths) {
    RoomRow& row = measured.emplace_back();
    row.shape = shape.name;
    row.tokens = tokens;
    row.bytes = tokens * layout.token_bytes();
    row.fits = tokens <= fitting;
    if (row.fits) longest = tokens;
  }
  if (longest > 0) {
    WorkerPool pool(std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency())));
    const int32_t pages = PagesFor(longest);
    REM_ASSIGN_OR_RETURN(
        KvMemory memory,
        KvMemory::Take(layout.page_bytes(), {.arena_pages = pages, .dynamic_pages = pages}, pool,
                       nullptr));
    MemoryStore store(std::move(memory));
    EngineOptions options;
    for (const int32_t tokens : kLengths) {
      if (tokens <= longest) options.bucket_tokens.push_back(tokens);
    }
    RoomSource source(store, pages, longest, options, {});
    for (RoomRow& row : measured) {
      if (row.fits) REM_RETURN_IF_ERROR(MeasureLength(source, rounds, &row));
    }
  }
  rows->insert(rows->end(), measured.begin(), measured.end());
  return Status::Ok();
}

}  // namespace

Result<std::vector<RoomRow>> MeasureRooms(int32_t rounds) {
  std::vector<RoomRow> rows;
  for (const Shape& shape : kShapes) REM_RETURN_IF_ERROR(MeasureShape(shape, rounds, &rows));
  return rows;
}

}  // namespace remontoir
