// What was typed for the commands that work on a model without serving it.
#pragma once

#include <cstdint>
#include <string>

#include "apps/engine_choice.h"

namespace remontoir {

struct TokenizeOptions {
  std::string model;
  bool parse_special = false;  // control tokens' spellings in a text are the tokens
  bool decode = false;         // every line must be ids
};

struct PerplexityOptions {
  EngineChoice engine;
  std::string text_file;
  int32_t window = 2048;  // tokens of one context; less where the model's context is shorter
};

struct PlanOptions {
  EngineChoice engine;
};

struct CompletionOptions {
  std::string script;  // made while parsing, where the flags are known
};

}  // namespace remontoir
