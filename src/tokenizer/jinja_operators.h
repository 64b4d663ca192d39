// Operators on values, with Python's rules.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"

namespace remontoir {

// + - * / // % ** and ~ (which joins texts).
Result<JinjaValue> JinjaBinary(JinjaRuntime& runtime, std::string_view op, const JinjaValue& a,
                               const JinjaValue& b);
Result<JinjaValue> JinjaNegate(const JinjaValue& value);

// == != < <= > >= in, not in.
Result<bool> JinjaCompare(JinjaRuntime& runtime, std::string_view op, const JinjaValue& a,
                          const JinjaValue& b);
Result<bool> JinjaEqual(JinjaRuntime& runtime, const JinjaValue& a, const JinjaValue& b);
// Below 0, 0 or above 0; an error if the values have no order.
Result<int> JinjaOrder(JinjaRuntime& runtime, const JinjaValue& a, const JinjaValue& b);

// value.name and value[key]: undefined if there is no such thing, an error on undefined.
Result<JinjaValue> JinjaAttribute(const JinjaValue& value, std::string_view name);
Result<JinjaValue> JinjaSubscript(JinjaRuntime& runtime, const JinjaValue& value,
                                  const JinjaValue& key);
// value[begin:end:step]; none where left out.
Result<JinjaValue> JinjaSlice(JinjaRuntime& runtime, const JinjaValue& value,
                              const JinjaValue& begin, const JinjaValue& end,
                              const JinjaValue& step);

// What a loop over the value sees: items, characters or keys; nothing for undefined.
Result<std::vector<JinjaValue>> JinjaItems(JinjaRuntime& runtime, const JinjaValue& value);
// Items, characters or keys without building them.
Result<int64_t> JinjaLength(const JinjaValue& value);

// An error with undefined's own words.
Status JinjaDefined(const JinjaValue& value);

}  // namespace remontoir
