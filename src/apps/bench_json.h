// How the benches write numbers.
#pragma once

#include "api/json_writer.h"

namespace remontoir {

// Seven digits: no measurement has more to say.
inline void WriteNumber(JsonWriter& json, const char* key, double value) {
  json.Key(key).Float(static_cast<float>(value));
}

}  // namespace remontoir
