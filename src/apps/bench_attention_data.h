// A text through the first layers of a model: the operands of `bench attention`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/attention_capture.h"

namespace remontoir {

struct CaptureRequest {
  std::string model_file;
  std::string text_file;  // empty: installed texts
  int32_t tokens = 0;     // the first of the text
  std::vector<int32_t> layers;
  double rope_base_scale = 1;  // where the tokens are more than the model was trained for
  // Rows from here on are computed in the sparse mode (epsilon 0.1, blocks of 16 keys), so that
  // long texts don't take their length squared; at least kEngageAtCustomSparse.
  int32_t exact_tokens = 0;
};

// What the layers see. Only those up to the last of them are run, on all cores, with keys and
// values in float32. A layer that the model hasn't stands for its last one.
Result<std::vector<CapturedAttention>> CaptureLayers(const CaptureRequest& request);

}  // namespace remontoir
