// A chat template's source as a tree.
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/jinja_ast.h"

namespace remontoir {

// Errors name the line and what was expected. Nesting is bounded.
Result<JinjaTemplate> ParseJinja(std::string_view source);

}  // namespace remontoir
