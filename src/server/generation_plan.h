// A checked request, turned into what the engine is asked and how the answer is put together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/error_body.h"
#include "api/generation_options.h"
#include "api/responses.h"
#include "engine/request.h"
#include "server/choice_stream.h"
#include "server/request_room.h"
#include "server/request_schedule.h"
#include "server/served_model.h"

namespace remontoir {

enum class ReplyFormat { kChat, kCompletion };

struct PlannedChoice {
  Request request;
  ChoiceOptions options;
  std::string echo;  // goes before the generated text
};

struct GenerationPlan {
  ReplyFormat format = ReplyFormat::kChat;
  ReplyHead head;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool wants_timings = false;
  SchedulingPolicy policy = SchedulingPolicy::kImmediate;  // in force
  // Since the request's last byte; so much of its deadline is gone when the engine gets it.
  int64_t text_us = 0;
  int64_t prompt_tokens = 0;  // each prompt once, however many choices it has
  int32_t choices_a_prompt = 1;
  std::vector<PlannedChoice> choices;  // prompt by prompt
};

using PlanOrError = std::variant<GenerationPlan, ErrorBody>;

// What a plan takes from outside, so that planning itself is a pure function.
struct PlanInputs {
  uint64_t entropy = 0;  // for the answer's id and the seeds that the client left open
  int64_t created = 0;   // Unix seconds
  RoomHeaders room = {};
  ScheduleHeaders schedule = {};
};

// Checks the model's name and the token ids in logit_bias; fills in all but the choices.
std::optional<ErrorBody> BeginPlan(const GenerationOptions& options, const ServedModel& model,
                                   const PlanInputs& inputs, ReplyFormat format,
                                   GenerationPlan& plan);

// The deadline of a request's first token, as it says or by default; 0: none.
int64_t DeadlineUs(const ScheduleHeaders& schedule, const ScheduleDefaults& defaults);

// Adds options.n choices of one prompt; `param` is the field to blame when it is empty.
std::optional<ErrorBody> AddChoices(const GenerationOptions& options, const ServedModel& model,
                                    const PlanInputs& inputs, const PlannedChoice& pattern,
                                    std::string_view param, GenerationPlan& plan);

}  // namespace remontoir
