// Python's two ways to fill values into a text.
#pragma once

#include <vector>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"

namespace remontoir {

// 'format' % values: %s %r %d %i %f %e %g %x %X %o %c %% with flags, width and precision.
Result<JinjaValue> JinjaPercentFormat(JinjaRuntime& runtime, const SpanText& format,
                                      const std::vector<JinjaValue>& values);

// 'format'.format(arguments): {} {0} {name}, with no format specification but an empty one.
Result<JinjaValue> JinjaBraceFormat(JinjaRuntime& runtime, const SpanText& format,
                                    const JinjaArguments& arguments);

}  // namespace remontoir
