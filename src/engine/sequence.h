// A slot for one sequence in flight: all that its life needs, planned at start and used again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/room.h"
#include "sampling/token_counts.h"

namespace remontoir {

struct Sequence {
  Sequence(RoomSource& rooms, int32_t vocabulary_size, int32_t context_max)
      : room(rooms), counts(vocabulary_size, context_max) {
    tokens.reserve(context_max);
  }

  const Request& request() const { return generation->request(); }
  int32_t prompt_tokens() const { return static_cast<int32_t>(request().prompt.size()); }
  int32_t tokens_known() const { return static_cast<int32_t>(tokens.size()); }
  bool scores() const { return request().kind == RequestKind::kScore; }
  std::span<const int32_t> computed() const {
    return std::span<const int32_t>(tokens).first(static_cast<size_t>(tokens_computed));
  }
  // First position whose logits are wanted.
  int32_t logits_begin() const { return scores() ? 0 : prompt_tokens() - 1; }

  std::shared_ptr<Generation> generation;  // null: the slot is free
  std::vector<int32_t> tokens;             // prompt, then drawn ones
  int32_t tokens_computed = 0;             // of these, in the room's pages
  int32_t seals_made = 0;                  // of the room's segments
  SequenceRoom room;
  TokenCounts counts;  // kept up only where the sampling parameters need them
  bool counts_tokens = false;
  TimePoint arrived;
  TimePoint admitted;
  int64_t predicted_us = 0;              // from arrival to the first token
  std::optional<TimePoint> first_token;  // drawn
};

}  // namespace remontoir
