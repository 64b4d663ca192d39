// The policy `immediate`.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace remontoir {
namespace {

// What is free, less what those who join take.
class FreeRoom {
 public:
  explicit FreeRoom(const SchedulerState& state)
      : pages_(state.pages_free),
        dynamic_pages_(state.dynamic_pages_free),
        class_count_(static_cast<int32_t>(state.classes.size())) {
    REM_CHECK(state.classes.size() <= classes_.size(), "a bounded number of classes");
    for (int32_t i = 0; i < class_count_; ++i) classes_[i] = state.classes[i];
  }

  bool TryTake(const RoomNeed& need) {
    if (need.pages > pages_ || need.dynamic_pages > dynamic_pages_) return false;
    if (need.tokens > 0) {
      RoomClass* const found = FindClass(need.tokens);
      if (found == nullptr) return false;
      --found->places_free;
    }
    pages_ -= need.pages;
    // Where the next row of pages lies isn't known until this one is taken.
    if (need.dynamic_pages > 0) dynamic_pages_ = 0;
    return true;
  }

 private:
  // The smallest with a place that holds so many tokens.
  RoomClass* FindClass(int64_t tokens) {
    for (int32_t i = 0; i < class_count_; ++i) {
      if (classes_[i].tokens >= tokens && classes_[i].places_free > 0) return &classes_[i];
    }
    return nullptr;
  }

  int32_t pages_;
  int32_t dynamic_pages_;
  const int32_t class_count_;
  std::array<RoomClass, kRoomClassesMax> classes_;
};

void AdmitWaiting(TimePoint now, const SchedulerState& state, Round& round) {
  FreeRoom room(state);
  const auto waiting = static_cast<int32_t>(state.waiting.size());
  for (int32_t i = 0; i < waiting; ++i) {
    if (static_cast<int32_t>(round.admitted.size()) >= state.slots_free) return;
    if (room.TryTake(state.waiting[i].room)) {
      round.admitted.push_back(i);
    } else if (ElapsedUs(state.waiting[i].arrived, now) >= kOvertakenUsMax) {
      return;
    }
  }
}

// The longest share of at most `rows` next tokens that ends at the grain or at the last known
// token.
int32_t CutAtGrain(const SequenceProgress& sequence, int64_t rows) {
  const int32_t pending = sequence.tokens_known - sequence.tokens_computed;
  if (rows >= pending) return pending;
  if (rows <= 0) return 0;
  const int64_t end = (sequence.tokens_computed + rows) / kChunkGrain * kChunkGrain;
  return static_cast<int32_t>(std::max<int64_t>(0, end - sequence.tokens_computed));
}

int32_t LogitRows(const SequenceProgress& sequence, int32_t tokens) {
  const int32_t end = sequence.tokens_computed + tokens;
  return std::max(0, end - std::max(sequence.logits_begin, sequence.tokens_computed));
}

// How many next tokens bring at most `logit_rows` wanted rows.
int64_t RowsWithin(const SequenceProgress& sequence, int64_t logit_rows) {
  const int64_t unwanted = std::max(0, sequence.logits_begin - sequence.tokens_computed);
  return unwanted + logit_rows;
}

void AddDecoders(const SchedulerState& state, Round& round) {
  for (size_t i = 0; i < state.running.size(); ++i) {
    const SequenceProgress& sequence = state.running[i];
    if (!sequence.decoding() || sequence.events_room < 1) continue;
    round.shares.push_back({static_cast<int32_t>(i), 1});
    ++round.decode_rows;
  }
}

void AddPrefill(const SchedulerState& state, Round& round) {
  const int64_t in_window = state.cost.PrefillTokensWithin(round.window_us, round.decode_rows);
  int64_t tokens_left = std::min<int64_t>(state.bounds.tokens_max - round.decode_rows,
                                          std::max<int64_t>(in_window, kChunkGrain));
  int64_t logit_rows_left = state.bounds.logit_rows_max - round.decode_rows;
  const auto running = static_cast<int32_t>(state.running.size());
  const auto admitted = static_cast<int32_t>(round.admitted.size());
  for (int32_t i = 0; i < running + admitted; ++i) {
    const SequenceProgress& sequence =
        i < running ? state.running[i] : state.waiting[round.admitted[i - running]].progress;
    if (sequence.decoding()) continue;
    const int64_t answers = std::min<int64_t>(logit_rows_left, sequence.events_room);
    const int32_t wanted = CutAtGrain(sequence, RowsWithin(sequence, answers));
    const int32_t tokens = CutAtGrain(sequence, std::min<int64_t>(wanted, tokens_left));
    if (tokens > 0) {
      round.shares.push_back({i, tokens});
      round.prefill_tokens += tokens;
      tokens_left -= tokens;
      logit_rows_left -= LogitRows(sequence, tokens);
    }
    if (tokens < wanted) break;  // the window is full; what is left of it is nobody's to overtake
  }
}

}  // namespace

void NextRound(TimePoint now, const SchedulerState& state, Round& round) {
  round.window_us = kImmediateWindowUs;
  round.admitted.clear();
  round.decode_rows = 0;
  round.prefill_tokens = 0;
  round.shares.clear();
  AdmitWaiting(now, state, round);
  AddDecoders(state, round);
  AddPrefill(state, round);
}

}  // namespace remontoir
