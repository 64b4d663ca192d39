// Who runs in the next round: a pure function of the time and the engine's state.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "kv/kv_buckets.h"
#include "predictor/forecast.h"
#include "scheduler/cost_model.h"
#include "scheduler/policy.h"

namespace remontoir {

// Prefill is cut at multiples of it, at absolute positions: the rows that one work item of the
// attention takes together.
inline constexpr int32_t kChunkGrain = 8;

// Where a sequence stands. Its tokens are the prompt's and those drawn so far.
struct SequenceProgress {
  int32_t prompt_tokens = 0;
  int32_t tokens_known = 0;     // prompt and drawn
  int32_t tokens_computed = 0;  // of these, in KV pages
  int32_t logits_begin = 0;     // first position whose logits are wanted
  int32_t events_room = 0;      // tokens whose events its consumer has room for now
  int32_t seals_made = 0;       // of a sparse one; tensor/sealed_layout.h counts them

  bool decoding() const { return tokens_known > prompt_tokens; }
  int32_t tokens_pending() const { return tokens_known - tokens_computed; }
};

// What a sequence's room takes from what is free.
struct RoomNeed {
  int32_t pages = 0;          // of the arena
  int32_t dynamic_pages = 0;  // in a row, of the dynamic region
  int64_t tokens = 0;         // that its class has to hold; 0: it needs no place in one
  int32_t segments = 0;       // sealed, for sparse attention
};

// A sequence that waits or runs.
struct SequenceState {
  TimePoint arrived;
  SequenceProgress progress;
  RoomNeed room = {};  // that it takes when it joins; while it runs, that comes back with its end
  int32_t priority = 0;
  bool alone = false;         // shares no round with others
  int32_t answer_tokens = 1;  // still expected of it: for predictions alone
  bool sparse = false;        // its segments are sealed as it grows
};

// Of the model and its mode: what sealing is.
struct SealingRules {
  int32_t layers = 0;     // seals of a segment
  int32_t engage_at = 0;  // position of the first row that needs them
};

// A length class of room.
struct RoomClass {
  int64_t tokens = 0;
  int32_t places_free = 0;
};

struct RoundBounds {
  int32_t tokens_max = 0;
  int32_t logit_rows_max = 0;
};

// What earlier rounds left for later ones to know.
struct SchedulerMemory {
  // Who arrived until then is past the gate of `fixed` and `legacy`.
  TimePoint released_until{std::numeric_limits<int64_t>::min()};
  TimePoint gate_opened{std::numeric_limits<int64_t>::min()};  // the last time
  bool alone_last = false;  // the last round was one sequence's alone
};

struct SchedulerState {
  std::span<const SequenceState> waiting;  // in order of arrival
  std::span<const SequenceState> running;  // in order of admission
  int32_t slots_free = 0;
  int32_t pages_free = 0;              // of the arena
  int32_t dynamic_pages_free = 0;      // the longest row of them
  int32_t segments_free = 0;           // sealed
  std::span<const RoomClass> classes;  // lengths ascending, at most kRoomClassesMax
  RoundBounds bounds;
  SealingRules sealing;
  SchedulerOptions options;
  CostModel costs;
  ArrivalForecast forecast;
  SchedulerMemory memory;  // `after` of the round before
};

// What one sequence computes in a round: its next tokens, and its next seals. One without tokens
// has seals.
struct RoundShare {
  int32_t sequence = 0;  // index into running; running.size() + i: that of admitted[i]
  int32_t tokens = 0;
  int32_t seals = 0;
};

struct Round {
  Round(int32_t sequences_max, int32_t waiting_max) {
    admitted.reserve(sequences_max);
    shares.reserve(sequences_max);
    order.reserve(sequences_max + waiting_max);
  }

  int64_t window_us = 0;          // the time budget that it was filled for
  std::optional<TimePoint> wake;  // when nothing runs: it may then; unset: not without an event
  std::vector<int32_t> admitted;  // waiting ones that join, ascending; capacity like shares
  int32_t decode_rows = 0;
  int32_t prefill_tokens = 0;
  std::vector<RoundShare> shares;  // capacity: as many as may be in flight
  RoundWork work;
  SchedulerMemory after;
  std::vector<int32_t> order;  // scratch
};

// Those that a configuration may list, and one of the whole context.
inline constexpr int32_t kRoomClassesMax = kBucketsMax + 1;
// How long somebody who waits for room may be overtaken by others whose room is free.
inline constexpr int64_t kOvertakenUsMax = 2'000'000;

// Waiting sequences that the policy's gate lets through join in its order while a slot and their
// room are free. One whose room isn't is passed over, but not for longer than kOvertakenUsMax since
// its arrival: from then on nobody behind it joins before it does, so that room which comes free is
// kept for it. Every decoding sequence gets a row (under kLegacy: once no prompt is left); prompts
// fill the rest of the window in the policy's order, and at least one grain of it where the bounds
// allow. Sealing is work like any other: a round makes the seals that fit into its window, and rows
// that need more of them wait for a later one. Beyond the window a round makes only those whose
// turn comes with its decode rows, and one where the first prompt is behind, so that it moves. A
// sequence that asks to be alone joins when no other such runs; its rounds alternate with those
// that the others share. A sequence whose consumer has no room for its events is left out. Bounds
// that always let everybody move: tokens_max and logit_rows_max of at least (slots - 1) +
// kChunkGrain. `round` keeps its storage.
void NextRound(TimePoint now, const SchedulerState& state, Round& round);

// The window that a policy's replies tell of, in ms: that of the round, or what the gate waits for.
int32_t ReportedWindowMs(const SchedulerOptions& options, const Round& round);

}  // namespace remontoir
