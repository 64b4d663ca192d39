// `remontoir tokenize`: texts to token ids and back, a JSON line at a time.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "apps/tool_options.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

// {"text": ...} gives a JSON array of ids, {"ids": [...]} a JSON string. Adds no BOS or EOS,
// whatever the file says. Needs the file's vocabulary alone. Errors name the line.
Status Tokenize(const TokenizeOptions& options, std::FILE* in, std::FILE* out);

// The answer to one line, without its newline.
Result<std::string> TokenizeLine(const Tokenizer& tokenizer, const TokenizeOptions& options,
                                 std::string_view line);

}  // namespace remontoir
