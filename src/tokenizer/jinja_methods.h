// The methods of Python's strings, lists and dicts that templates call.
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"

namespace remontoir {

// True if values of the object's kind have such a method.
bool HasJinjaMethod(const JinjaValue& object, std::string_view name);

// object.name(arguments); asks for HasJinjaMethod.
Result<JinjaValue> CallJinjaMethod(JinjaRuntime& runtime, const JinjaValue& object,
                                   std::string_view name, const JinjaArguments& arguments);

// A dict's (key, value) pairs as a list of tuples.
Result<JinjaValue> JinjaPairs(JinjaRuntime& runtime, const JinjaValue& map);

}  // namespace remontoir
