// Room for the keys and values of sequences: where it comes from, and what one sequence holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/dynamic_ranges.h"
#include "engine/engine.h"
#include "kv/kv_buckets.h"
#include "kv/kv_pool.h"
#include "scheduler/scheduler.h"

namespace remontoir {

// What all rooms are taken from. One thread; takes its storage when made and none later.
class RoomSource {
 public:
  // The pages must outlive the source. arena_pages: of the arena, 0 or more.
  // Where `sparse` engages, sequences that may get there hold sealed segments too.
  RoomSource(KvStore& pages, int32_t arena_pages, int32_t context_max, const EngineOptions& options,
             const SparseAttentionOptions& sparse);

  // Positions that the request may fill before its room has to grow: prompt and max_tokens (or
  // the default), at most what the client hints at and what there is at all.
  int64_t TokensToReserve(const Request& request) const;
  // What it would take now. `match` is that of its prompt, or none.
  RoomNeed NeedOf(const Request& request, const PrefixMatch& match) const;
  // What anybody left of the prompt's first tokens in the prefix cache, `tokens_max` at most.
  PrefixMatch Match(const Request& request, int32_t tokens_max = INT32_MAX);
  PrefixKey KeyOf(const Request& request) const;
  bool IsDynamic(const Request& request) const { return dynamic_only_ || request.room.dynamic; }

  // Sealed segments for so many positions of the request.
  int32_t SegmentsFor(const Request& request, int64_t tokens) const;
  // Of the request's segments: those that a match brings along, sealed.
  int32_t SegmentsKept(const Request& request, const PrefixMatch& match) const;

  // Positions that one sequence could ever fill.
  int64_t tokens_max(bool dynamic) const;
  // What is free, for the scheduler; the classes stay valid until the next call.
  void Describe(SchedulerState& state);
  KvStats stats() const { return pool_.stats(); }
  const BucketCounts& buckets() const { return buckets_; }
  int32_t dynamic_pages_taken() const { return dynamic_.pages_total() - dynamic_.pages_free(); }

 private:
  friend class SequenceRoom;

  KvStore& pages_;
  const int32_t context_max_;
  const int32_t reserve_tokens_default_;
  const bool dynamic_only_;
  KvPool pool_;
  BucketCounts buckets_;
  DynamicRanges dynamic_;
  const int32_t engage_at_;         // 0: never
  std::vector<RoomClass> classes_;  // as last described
  std::vector<int32_t> prompt_;     // of the request that is looked up, [context_max]
};

// One sequence's pages. What it holds is never taken back.
class SequenceRoom {
 public:
  // The source must outlive the room.
  explicit SequenceRoom(RoomSource& source);
  ~SequenceRoom() { Release({}); }
  SequenceRoom(const SequenceRoom&) = delete;
  SequenceRoom& operator=(const SequenceRoom&) = delete;

  // Takes the room of a request for which NeedOf and Describe say that it is free, and copies what
  // the prefix cache has of its last page. Of the cache it takes what the round was planned with,
  // `tokens_matched_max` at most. ResourceExhausted, and nothing taken, when the system has no
  // memory for a dynamic one.
  Status Take(const Request& request, int32_t tokens_matched_max);
  // Room for a page more. False when there is none.
  bool Grow();
  // tokens: those computed so far, from position 0: full pages become visible to other requests. In
  // a sparse sequence those past engage_at only where they are the prompt's, in whole groups of 8:
  // generated rows and a short last group chose their blocks in other company than a prompt's
  // would. Segments stay with their pages: the first `sealed` ones are sealed.
  void Publish(std::span<const int32_t> tokens, int32_t sealed);
  // Gives all back; what `tokens`, computed in it, fill stays in the prefix cache, likewise.
  void Release(std::span<const int32_t> tokens);

  // Those of its positions, in their order; none: it is exact.
  std::span<const SealedSegmentId> segments() const { return lease_.segments(); }
  // The first ones, which are sealed: found with its pages, or left with them for others.
  int32_t segments_kept() const { return lease_.segments_kept(); }
  // In the order of the sequence's positions.
  std::span<const KvPageId> pages() const {
    return dynamic_ ? std::span<const KvPageId>(dynamic_pages_) : lease_.pages();
  }
  int64_t tokens_max() const { return static_cast<int64_t>(pages().size()) * kKvPageTokens; }
  // Positions found in the prefix cache: they needn't be computed.
  int32_t tokens_matched() const { return dynamic_ ? 0 : lease_.tokens_matched(); }
  // What comes back with its end. Pages that others share are counted too.
  RoomNeed Held() const;
  // Length of its class; 0: dynamic.
  int32_t bucket_tokens() const {
    return bucket_ == kNoBucket ? 0 : source_.buckets_.tokens(bucket_);
  }

 private:
  static constexpr int32_t kRangesMax = 64;   // of a dynamic room
  static constexpr int32_t kGrowthPages = 4;  // of a range that it grows by
  // A room that grows takes its segments so many positions before they are needed, where there are
  // any: they are sealed little by little.
  static constexpr int32_t kSegmentsAhead = 1024;

  Status TakeRange(int32_t pages);
  bool TakeSegmentsFor(int64_t tokens);
  std::span<const int32_t> Publishable(std::span<const int32_t> tokens) const;

  RoomSource& source_;
  bool dynamic_ = false;
  bool publishes_ = false;
  KvLease lease_;
  BucketId bucket_ = kNoBucket;
  std::vector<KvPageRange> ranges_;
  std::vector<KvPageId> dynamic_pages_;
  const Request* request_ = nullptr;  // while it holds a room
};

}  // namespace remontoir
