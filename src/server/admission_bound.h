// What the engine says of a request before its prompt is known.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace remontoir {

// The least time to the first token of a request that comes now, with a prompt of one token; and
// when a retry should be let in, if that is beyond first_token_us_max. Cheap; an engine that
// predicts nothing says 0.
template <class AnyEngine>
AdmissionFacts PredictAtLeast(AnyEngine& engine, int64_t first_token_us_max, int32_t priority) {
  if constexpr (requires { engine.PredictAtLeast(int32_t{1}, first_token_us_max, priority); }) {
    return engine.PredictAtLeast(/*prompt_tokens=*/1, first_token_us_max, priority);
  } else {
    return {};
  }
}

}  // namespace remontoir
