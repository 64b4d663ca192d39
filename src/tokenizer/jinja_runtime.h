// What everything that runs inside of a template shares: the budget, the clock, calls' arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja_value.h"

namespace remontoir {

// Bounds of one rendering. Text that is built costs a step per 64 bytes, so steps bound memory too.
struct JinjaLimits {
  int64_t steps_max = 2'000'000;
  size_t text_bytes_max = 64u << 20;  // of one string, the output included
  int depth_max = 400;                // expressions, macros and loops inside of one another
};

class JinjaRuntime {
 public:
  JinjaRuntime(const JinjaLimits& limits, const std::tm& clock) : limits_(limits), clock_(clock) {}

  // One step, and the text that it builds or reads. ResourceExhausted when the budget is spent.
  Status Spend(size_t bytes = 0) { return Spend(bytes, bytes); }

  // One step that makes a text `length` bytes long by adding `bytes` to it.
  Status Spend(size_t length, size_t bytes) {
    if (length > limits_.text_bytes_max || bytes > limits_.text_bytes_max) {
      return ResourceExhausted("chat template: a text is too long");
    }
    steps_ += 1 + static_cast<int64_t>(bytes / 64);
    if (steps_ > limits_.steps_max) return ResourceExhausted("chat template: too many steps");
    return Status::Ok();
  }

  // Counts nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(JinjaRuntime& runtime) : runtime_(runtime) { ++runtime_.depth_; }
    ~Nesting() { --runtime_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Status Check() const {
      if (runtime_.depth_ <= runtime_.limits_.depth_max) return Status::Ok();
      return ResourceExhausted("chat template: nested too deeply");
    }

   private:
    JinjaRuntime& runtime_;
  };

  const std::tm& clock() const { return clock_; }

 private:
  JinjaLimits limits_;
  std::tm clock_;
  int64_t steps_ = 0;
  int depth_ = 0;
};

struct JinjaArguments {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> keywords;

  // The argument at that place or of that name; nullptr if it wasn't given.
  const JinjaValue* Find(size_t index, std::string_view name) const {
    if (index < positional.size()) return &positional[index];
    return Find(name);
  }
  const JinjaValue* Find(std::string_view name) const {
    for (const auto& [keyword, value] : keywords) {
      if (keyword == name) return &value;
    }
    return nullptr;
  }
};

}  // namespace remontoir
