// A text through the first layers of a model: the operands of `bench attention`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/attention_capture.h"

namespace remontoir {

// What `layers` of the model see of the first `tokens` tokens of the text (empty: of installed
// texts). Only the layers up to the last of them are run, with keys and values in float32; beyond
// the context trained, RoPE's base is stretched by as much as the context is. A layer that the
// model hasn't stands for its last one.
Result<std::vector<CapturedAttention>> CaptureLayers(const std::string& model_file,
                                                     const std::string& text_file, int32_t tokens,
                                                     std::span<const int32_t> layers);

}  // namespace remontoir
