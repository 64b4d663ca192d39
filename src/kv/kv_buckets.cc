// The list of length classes and the places in them.
#include "kv/kv_buckets.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr int64_t kDefaultStepTokens = 2048;
constexpr int64_t kDefaultSteps = 16;  // evenly spaced classes, before they double

Status CheckWanted(std::span<const int64_t> wanted) {
  const auto refuse = [](const std::string& why) {
    return InvalidArgument("kv_cache.prealloc_buckets: " + why);
  };
  if (wanted.size() > static_cast<size_t>(kBucketsMax)) {
    return refuse(std::to_string(wanted.size()) + " lengths, at most " +
                  std::to_string(kBucketsMax) + " are possible");
  }
  int64_t previous = 0;
  for (const int64_t tokens : wanted) {
    if (tokens < 1) return refuse(std::to_string(tokens) + " is below 1");
    if (tokens <= previous) {
      return refuse(std::to_string(tokens) + " follows " + std::to_string(previous) +
                    ", lengths must ascend");
    }
    previous = tokens;
  }
  return Status::Ok();
}

std::vector<int64_t> DefaultBuckets(int64_t context_max) {
  std::vector<int64_t> lengths;
  int64_t tokens = kDefaultStepTokens;
  for (; tokens < context_max; tokens = lengths.back() < kDefaultSteps * kDefaultStepTokens
                                            ? tokens + kDefaultStepTokens
                                            : tokens * 2) {
    lengths.push_back(tokens);
  }
  lengths.push_back(context_max);
  return lengths;
}

}  // namespace

Result<BucketPlan> PlanBuckets(std::span<const int64_t> wanted, int32_t context_max) {
  if (context_max < 1) {
    return InvalidArgument("model.context: " + std::to_string(context_max) + " is below 1");
  }
  REM_RETURN_IF_ERROR(CheckWanted(wanted));
  std::vector<int64_t> lengths(wanted.begin(), wanted.end());
  if (lengths.empty()) lengths = DefaultBuckets(context_max);

  BucketPlan plan;
  for (const int64_t tokens : lengths) {
    if (tokens > context_max) {
      plan.dropped.push_back(tokens);
    } else {
      plan.tokens.push_back(static_cast<int32_t>(tokens));
    }
  }
  if (plan.tokens.empty() || plan.tokens.back() < context_max) plan.tokens.push_back(context_max);
  return plan;
}

BucketCounts::BucketCounts(std::span<const int32_t> tokens, int32_t capacity)
    : capacity_(capacity) {
  REM_CHECK(capacity >= 1, "a class without a place");
  REM_CHECK(std::is_sorted(tokens.begin(), tokens.end()), "classes don't ascend");
  classes_.reserve(tokens.size());
  for (const int32_t length : tokens) classes_.push_back({.tokens = length});
}

const BucketCounts::Class& BucketCounts::At(BucketId bucket) const {
  REM_CHECK(Index(bucket) >= 0 && Index(bucket) < class_count(), "no such class");
  return classes_[static_cast<size_t>(Index(bucket))];
}

BucketId BucketCounts::Find(int64_t tokens) const {
  for (int32_t i = 0; i < class_count(); ++i) {
    const Class& at = At(BucketId(i));
    if (at.tokens >= tokens && at.taken < capacity_) return BucketId(i);
  }
  return kNoBucket;
}

BucketId BucketCounts::Take(int64_t tokens) {
  const BucketId bucket = Find(tokens);
  if (bucket != kNoBucket) ++classes_[static_cast<size_t>(Index(bucket))].taken;
  return bucket;
}

BucketId BucketCounts::Grow(BucketId bucket, int64_t tokens) {
  if (At(bucket).tokens >= tokens) return bucket;
  const BucketId larger = Take(tokens);
  if (larger != kNoBucket) Return(bucket);
  return larger;
}

void BucketCounts::Return(BucketId bucket) {
  REM_CHECK(At(bucket).taken > 0, "a place came back that nobody had");
  --classes_[static_cast<size_t>(Index(bucket))].taken;
}

}  // namespace remontoir
