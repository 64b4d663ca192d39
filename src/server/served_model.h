// The model that the service answers for, once it is loaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "scheduler/policy.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

class ChatTemplate;

struct ModelNames {
  // The file's name without its ending, which a request may add; replies to requests without a name
  // carry it.
  std::string primary;
  std::vector<std::string> aliases;  // beside it and "default"
  bool any = false;                  // any other name is answered too

  bool Answers(std::string_view name) const {
    constexpr std::string_view kEnding = ".gguf";
    const std::string_view stem =
        name.ends_with(kEnding) ? name.substr(0, name.size() - kEnding.size()) : name;
    return any || name.empty() || stem == primary || name == "default" ||
           std::ranges::find(aliases, name) != aliases.end();
  }
};

// How requests are scheduled that say nothing of it themselves.
struct ScheduleDefaults {
  SchedulingPolicy policy = SchedulingPolicy::kImmediate;  // the engine's
  int64_t first_token_us_max = 0;                          // 0: no deadline
  bool single_when_not_streaming = false;
};

// What is pointed to lives as Service::Serve says.
struct ServedModel {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: the model has none, so it doesn't chat
  Engine* engine = nullptr;
  const EnginePlan* plan = nullptr;  // by which its memory was taken
  ModelNames names;
  ScheduleDefaults schedule;
  int32_t engine_queue_max = 256;       // as many may wait; more are refused
  bool trust_content_specials = false;  // special tokens spelled in a message's content count

  // Told to who asks, used for nothing.
  std::string path;     // as the configuration names the file
  std::string backend;  // what computes, in words
};

}  // namespace remontoir
