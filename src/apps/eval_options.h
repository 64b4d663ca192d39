// What was typed for `remontoir eval`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/engine_choice.h"
#include "eval/logits_distance.h"

namespace remontoir {

struct EvalLogitsOptions {
  EngineChoice engine;
  std::string reference;        // a .npy file
  std::vector<int32_t> tokens;  // as they are
  LogitsBounds bounds;          // none set: those of the way of computing
  bool json = false;
};

struct EvalLongContextOptions {
  std::string model;
  std::string text_file;
  int32_t context = 8192;      // tokens of the text that are read
  double rope_base_scale = 1;  // multiplies the RoPE base
  double epsilon = 0.1;
  int32_t block_keys = 16;
  int32_t scored = 1024;      // predictions that count: the last ones
  int32_t decode = 0;         // of these, tokens that are computed one by one
  bool exact_prompt = false;  // those before them are read exactly
  int32_t needles = 32;       // codes hidden in prompts of their own; 0: none
  ComputeChoice compute = ComputeChoice::kAuto;
  bool rounding = true;  // with 8-bit activations: beside float32, too
  int32_t threads = 0;   // 0: one a core
  bool json = false;
};

}  // namespace remontoir
