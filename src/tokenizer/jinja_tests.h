// What `is` asks: defined, string, mapping, ...
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"

namespace remontoir {

// An error for an unknown test.
Result<bool> ApplyJinjaTest(JinjaRuntime& runtime, std::string_view name, const JinjaValue& subject,
                            const JinjaArguments& arguments);

}  // namespace remontoir
