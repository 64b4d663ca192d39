// Reads a model's hyperparameters from its file's metadata, every one checked before it is used.
#pragma once

#include "base/status.h"
#include "formats/model_file.h"
#include "model/family.h"
#include "model/model_shape.h"

namespace remontoir {

// Errors name the key ("llama.block_count") and what is wrong with its value. Rotary frequencies
// are left to MakeRope; tied_embedding to ResolveTensors.
Result<ModelShape> ReadHyperparameters(const ModelFile& file, const Family& family);

// Rotary scaling as the file asks for it.
struct RopeScaling {
  enum class Kind : uint8_t { kNone, kLinear, kYarn };
  Kind kind = Kind::kNone;
  double base = 10000;
  double factor = 1;
  double original_context = 0;      // YaRN
  double beta_fast = 32;            // YaRN
  double beta_slow = 1;             // YaRN
  double attention_factor = 1;      // YaRN
  bool yarn_range_is_whole = true;  // as Family has it
  // YaRN; above 0: the scores of attention are multiplied by (1 + score_multiplier * ln(factor))^2
  // instead of the rotated values by 1 + 0.1 * ln(factor).
  double score_multiplier = 0;
};

Result<RopeScaling> ReadRopeScaling(const ModelFile& file, const Family& family,
                                    const ModelShape& shape);

// The same of layers with a sliding window.
Result<RopeScaling> ReadWindowedRopeScaling(const ModelFile& file, const Family& family,
                                            const ModelShape& shape);

// LongRoPE (Ding et al., "LongRoPE", 2024): two sets of factors, and what cos and sin are
// multiplied by where a file has them.
struct LongRope {
  int32_t original_context = 0;  // the long factors serve contexts beyond it
  float magnitude = 1;
};

Result<LongRope> ReadLongRope(const ModelFile& file, const Family& family, const ModelShape& shape);

}  // namespace remontoir
