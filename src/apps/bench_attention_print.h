// The sparse part of `bench attention` as tables and as JSON.
#pragma once

#include <cstdio>

#include "api/json_writer.h"
#include "apps/bench_attention_long.h"
#include "apps/bench_statistics.h"

namespace remontoir {

void WriteSpread(JsonWriter& json, const char* key, const Spread& spread);

void PrintSparse(const SparseReport& report, std::FILE* out);

// The judged figures, prefill_16k_x and rel_l2_16k (null: nothing was measured), and an object
// "sparse" with all rows, as members of the object that is open.
void WriteSparse(JsonWriter& json, const SparseReport& report);

}  // namespace remontoir
