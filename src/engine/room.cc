// Arena rooms by lease and class, dynamic ones by ranges of pages from the system.
#include "engine/room.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/random.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

std::vector<int32_t> ClassesOf(const EngineOptions& options, int32_t context_max) {
  if (options.bucket_tokens.empty()) return {context_max};
  return options.bucket_tokens;
}

// A score wants logits of all positions, so that all have to be computed.
bool LooksUp(const Request& request) {
  return request.kind == RequestKind::kGenerate && !request.room.bypasses_cache;
}

}  // namespace

RoomSource::RoomSource(KvStore& pages, int32_t arena_pages, int32_t context_max,
                       const EngineOptions& options, const SparseAttentionOptions& sparse)
    : pages_(pages),
      context_max_(context_max),
      reserve_tokens_default_(options.reserve_tokens_default),
      dynamic_only_(options.dynamic),
      pool_(arena_pages, SystemRandomBits(), sparse.engage_at > 0 ? sparse.segments : 0),
      buckets_(ClassesOf(options, context_max), options.bucket_capacity),
      dynamic_(pages.dynamic_pages(), pages.dynamic_granule()),
      engage_at_(sparse.segments > 0 ? sparse.engage_at : 0) {
  classes_.resize(static_cast<size_t>(buckets_.class_count()));
  prompt_.reserve(static_cast<size_t>(context_max));
}

int64_t RoomSource::tokens_max(bool dynamic) const {
  const int64_t pages = dynamic ? dynamic_.pages_total() : pool_.page_count();
  return pages * kKvPageTokens;
}

int64_t RoomSource::TokensToReserve(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  int64_t tokens =
      prompt + (request.max_tokens >= 0 ? request.max_tokens : reserve_tokens_default_);
  if (request.room.context_hint > 0) {
    tokens = std::min<int64_t>(tokens, request.room.context_hint);
  }
  // The prompt and a token have their place whatever was hinted at, so that it can begin.
  const int64_t generated_min = request.max_tokens == 0 ? 0 : 1;
  tokens = std::max(tokens, prompt + generated_min);
  return std::min({tokens, int64_t{context_max_}, tokens_max(IsDynamic(request))});
}

RoomNeed RoomSource::NeedOf(const Request& request, const PrefixMatch& match) const {
  const int64_t tokens = TokensToReserve(request);
  const int32_t pages = PagesFor(tokens);
  // Those of its pages that nobody holds can't be given to others any more.
  const KeptSegments kept = pool_.KeptWith(match);
  const int32_t wanted = SegmentsFor(request, tokens);
  const int32_t segments = std::max(0, wanted - kept.count) + kept.unreferenced;
  if (IsDynamic(request)) {
    const int32_t granule = pages_.dynamic_granule();
    return {.dynamic_pages = (pages + granule - 1) / granule * granule, .segments = segments};
  }
  return {.pages = pool_.PagesNeeded(match, pages), .tokens = tokens, .segments = segments};
}

int32_t RoomSource::SegmentsFor(const Request& request, int64_t tokens) const {
  if (engage_at_ == 0 || request.exact || tokens <= engage_at_) return 0;
  return static_cast<int32_t>((tokens - kAnchorKeys) / kSegmentKeys);
}

int32_t RoomSource::SegmentsKept(const Request& request, const PrefixMatch& match) const {
  const int32_t wanted = SegmentsFor(request, TokensToReserve(request));
  return std::min(wanted, pool_.KeptWith(match).count);
}

PrefixMatch RoomSource::Match(const Request& request, int32_t tokens_max) {
  if (!LooksUp(request) || IsDynamic(request)) return {};
  prompt_.clear();
  for (const TokenId token : request.prompt) prompt_.push_back(Index(token));
  MatchLimits limits = {.tokens_max = tokens_max};
  if (engage_at_ > 0) {
    limits.tail_grain = kRowGroupPositions;
    limits.grain_from = engage_at_;
  }
  return pool_.prefix_cache().Match(KeyOf(request), prompt_, limits);
}

// Past engage_at the two modes have different keys and values: neither finds the other's.
PrefixKey RoomSource::KeyOf(const Request& request) const {
  PrefixKey key = request.room.prefix_key;
  if (engage_at_ > 0 && request.exact) key.high = ~key.high;
  return key;
}

void RoomSource::Describe(SchedulerState& state) {
  for (int32_t i = 0; i < buckets_.class_count(); ++i) {
    const BucketId bucket{i};
    classes_[static_cast<size_t>(i)] = {buckets_.tokens(bucket),
                                        buckets_.capacity() - buckets_.taken(bucket)};
  }
  state.classes = classes_;
  state.pages_free = pool_.pages_available();
  state.dynamic_pages_free = dynamic_.longest_free();
  state.segments_free = pool_.segments_available();
}

SequenceRoom::SequenceRoom(RoomSource& source)
    : source_(source), lease_(source.pool_, PagesFor(source.context_max_)) {
  ranges_.reserve(kRangesMax);
  dynamic_pages_.reserve(static_cast<size_t>(source.dynamic_.pages_total()));
}

Status SequenceRoom::Take(const Request& request, int32_t tokens_matched_max) {
  const int64_t tokens = source_.TokensToReserve(request);
  dynamic_ = source_.IsDynamic(request);
  request_ = &request;
  const int32_t segments = source_.SegmentsFor(request, tokens);
  if (dynamic_) {
    REM_CHECK(lease_.TakeSegments(segments), "admitted without segments");
    return TakeRange(PagesFor(tokens));
  }
  const PrefixMatch match = source_.Match(request, tokens_matched_max);
  bucket_ = source_.buckets_.Take(tokens);
  REM_CHECK(bucket_ != kNoBucket, "admitted without a place");
  REM_CHECK(lease_.Reserve(match, PagesFor(tokens)), "admitted without room");
  publishes_ = match.looked_up;
  if (lease_.tail().tokens > 0) {
    const TailCopy& tail = lease_.tail();
    source_.pages_.CopyKvTokens(tail.source, tail.target, tail.tokens);
  }
  lease_.TailCopied();
  REM_CHECK(lease_.TakeSegments(segments), "admitted without segments");
  return Status::Ok();
}

Status SequenceRoom::TakeRange(int32_t pages) {
  const std::optional<KvPageRange> range =
      ranges_.size() < kRangesMax ? source_.dynamic_.Take(pages) : std::nullopt;
  if (!range.has_value()) return ResourceExhausted("no dynamic pages are left");
  const Status taken = source_.pages_.TakeDynamic(*range);
  if (!taken.ok()) {
    source_.dynamic_.GiveBack(*range);
    return taken;
  }
  ranges_.push_back(*range);
  for (int32_t i = 0; i < range->count; ++i) {
    dynamic_pages_.push_back(KvPageId(Index(range->begin) + i));
  }
  return Status::Ok();
}

RoomNeed SequenceRoom::Held() const {
  const auto count = static_cast<int32_t>(pages().size());
  const auto segments = static_cast<int32_t>(lease_.segments().size());
  if (dynamic_) return {.dynamic_pages = count, .segments = segments};
  return {.pages = count, .tokens = bucket_tokens(), .segments = segments};
}

// So many positions' segments where some rows of them are sparse. False when there are too few.
bool SequenceRoom::TakeSegmentsFor(int64_t tokens) {
  if (!lease_.TakeSegments(source_.SegmentsFor(*request_, tokens))) return false;
  const int64_t ahead = std::min<int64_t>(tokens + kSegmentsAhead, source_.context_max_);
  if (lease_.segments().empty()) {
    (void)lease_.TakeSegments(source_.SegmentsFor(*request_, ahead));
  }
  return true;
}

bool SequenceRoom::Grow() {
  const int64_t wanted =
      std::min<int64_t>(tokens_max() + kGrowthPages * kKvPageTokens, source_.context_max_);
  if (!TakeSegmentsFor(wanted)) return false;
  if (dynamic_) return TakeRange(kGrowthPages).ok() || TakeRange(1).ok();
  const int64_t tokens = std::min<int64_t>(tokens_max() + kKvPageTokens, source_.context_max_);
  const BucketId grown = source_.buckets_.Grow(bucket_, tokens);
  if (grown == kNoBucket) return false;
  if (lease_.Grow()) {
    bucket_ = grown;
    return true;
  }
  // Back to where it was: its place there is still free.
  if (grown != bucket_) {
    source_.buckets_.Return(grown);
    bucket_ = source_.buckets_.Take(tokens_max());
    REM_CHECK(bucket_ != kNoBucket, "the place that it just left");
  }
  return false;
}

std::span<const int32_t> SequenceRoom::Publishable(std::span<const int32_t> tokens) const {
  if (lease_.segments().empty() || std::ssize(tokens) <= source_.engage_at_) return tokens;
  const auto prompt = static_cast<int32_t>(request_->prompt.size());
  const int32_t whole = prompt / kRowGroupPositions * kRowGroupPositions;
  const auto most = static_cast<size_t>(std::max(source_.engage_at_, whole));
  return tokens.first(std::min(tokens.size(), most));
}

void SequenceRoom::Publish(std::span<const int32_t> tokens, int32_t sealed) {
  if (!publishes_) return;
  tokens = Publishable(tokens);
  const auto full = static_cast<int32_t>(tokens.size() / kKvPageTokens);
  if (full > lease_.pages_published()) lease_.Publish(tokens);
  lease_.KeepSegments(sealed);
}

void SequenceRoom::Release(std::span<const int32_t> tokens) {
  for (const KvPageRange& range : ranges_) {
    source_.pages_.GiveBackDynamic(range);
    source_.dynamic_.GiveBack(range);
  }
  ranges_.clear();
  dynamic_pages_.clear();
  if (bucket_ != kNoBucket) {
    if (publishes_) {
      lease_.PublishAndRelease(Publishable(tokens));
    } else {
      lease_.Release();
    }
    source_.buckets_.Return(bucket_);
  }
  lease_.Release();  // of a dynamic room: segments
  request_ = nullptr;
  bucket_ = kNoBucket;
  publishes_ = false;
  dynamic_ = false;
}

}  // namespace remontoir
