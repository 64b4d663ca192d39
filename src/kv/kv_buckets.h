// Length classes of KV room: which lengths there are, and how many leases of each may be out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace remontoir {

inline constexpr int32_t kBucketsMax = 64;  // classes that a configuration may list

struct BucketPlan {
  std::vector<int32_t> tokens;   // length of each class, ascending; the last is the context's
  std::vector<int64_t> dropped;  // listed, but above the context: worth a note
};

// wanted: kv_cache.prealloc_buckets in tokens; empty: every 2048 tokens up to 32768, doubling
// above. Classes above context_max are dropped; one of the context's own length ends the list where
// none covers it. kInvalidArgument names the key: a length below 1, one that doesn't exceed its
// predecessor, more than kBucketsMax, or a context below 1.
Result<BucketPlan> PlanBuckets(std::span<const int64_t> wanted, int32_t context_max);

// A class of a plan, by its place in the list.
enum class BucketId : int32_t {};

inline constexpr BucketId kNoBucket{-1};

inline constexpr int32_t Index(BucketId bucket) { return static_cast<int32_t>(bucket); }

// Counts the leases out of each class: a class is a number of places on one common page budget, so
// that a place and pages are both needed. One thread; allocates when made and never after.
class BucketCounts {
 public:
  // tokens: a plan's classes. capacity >= 1: leases of one class that may be out at once.
  BucketCounts(std::span<const int32_t> tokens, int32_t capacity);

  // The smallest class with a free place that holds `tokens`; kNoBucket: none has one now.
  BucketId Find(int64_t tokens) const;
  // The same, and its place is taken.
  BucketId Take(int64_t tokens);
  // A lease of `bucket` is to hold `tokens`: its class where that holds them, else the next larger
  // one with a free place, to which it moves. kNoBucket: there is none, and it stays where it was.
  BucketId Grow(BucketId bucket, int64_t tokens);
  void Return(BucketId bucket);

  int32_t class_count() const { return static_cast<int32_t>(classes_.size()); }
  int32_t capacity() const { return capacity_; }
  int32_t tokens(BucketId bucket) const { return At(bucket).tokens; }
  int32_t taken(BucketId bucket) const { return At(bucket).taken; }

 private:
  struct Class {
    int32_t tokens = 0;
    int32_t taken = 0;
  };
  const Class& At(BucketId bucket) const;

  const int32_t capacity_;
  std::vector<Class> classes_;
};

}  // namespace remontoir
