// Limits that depend on the model, seeds, and the engine's requests.
#include "server/generation_plan.h"

#include <array>
#include <cstdio>

#include "base/random.h"

namespace remontoir {
namespace {

constexpr uint64_t kIdStream = 0;
constexpr uint64_t kSeedStream = 1;

std::string ReplyId(std::string_view prefix, uint64_t entropy) {
  const CounterRandom random(entropy, kIdStream);
  std::array<char, 33> text;
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(random.Bits(0)),
                static_cast<unsigned long long>(random.Bits(1)));
  return std::string(prefix) + text.data();
}

RoomWishes WishesOf(const GenerationOptions& options, const RoomHeaders& headers) {
  return {.dynamic = headers.dynamic,
          .bypasses_cache = headers.bypasses_cache,
          .context_hint = options.max_context_length,
          .prefix_key = PrefixKeyOf(headers.api_key, options.cache_salt)};
}

static_assert(kPriorityMin == -kPriorityFieldMax && kPriorityMax == kPriorityFieldMax);

void SetSchedule(const GenerationOptions& options, const ServedModel& model,
                 const ScheduleHeaders& schedule, Request& request) {
  request.priority = schedule.priority.value_or(options.priority.value_or(0));
  request.alone = schedule.alone || (model.schedule.single_when_not_streaming && !options.stream);
  request.first_token_us_max = DeadlineUs(schedule, model.schedule);
}

}  // namespace

int64_t DeadlineUs(const ScheduleHeaders& schedule, const ScheduleDefaults& defaults) {
  return schedule.first_token_us_max > 0 ? schedule.first_token_us_max
                                         : defaults.first_token_us_max;
}

std::optional<ErrorBody> BeginPlan(const GenerationOptions& options, const ServedModel& model,
                                   const PlanInputs& inputs, ReplyFormat format,
                                   GenerationPlan& plan) {
  if (!model.names.Answers(options.model)) return ModelNotFound(options.model);
  for (const LogitBias& bias : options.sampling.logit_bias) {
    if (Index(bias.token) >= model.engine->vocabulary_size()) {
      return InvalidField("logit_bias", "names token " + std::to_string(Index(bias.token)) +
                                            ", which the vocabulary lacks");
    }
  }
  plan.format = format;
  plan.head.id = ReplyId(format == ReplyFormat::kChat ? "chatcmpl-" : "cmpl-", inputs.entropy);
  plan.head.created = inputs.created;
  plan.head.model = options.model.empty() ? model.names.primary : options.model;
  plan.stream = options.stream;
  plan.include_usage = options.include_usage;
  plan.continuous_usage = options.include_usage && options.continuous_usage;
  plan.wants_timings = inputs.schedule.wants_timings;
  plan.policy = model.schedule.policy;
  plan.choices_a_prompt = options.n;
  return std::nullopt;
}

std::optional<ErrorBody> AddChoices(const GenerationOptions& options, const ServedModel& model,
                                    const PlanInputs& inputs, const PlannedChoice& pattern,
                                    std::string_view param, GenerationPlan& plan) {
  const auto prompt_tokens = static_cast<int64_t>(pattern.request.prompt.size());
  if (prompt_tokens == 0) return InvalidField(param, "must not be empty");
  plan.prompt_tokens += prompt_tokens;
  const RoomWishes room = WishesOf(options, inputs.room);
  for (int32_t i = 0; i < options.n; ++i) {
    const auto index = static_cast<int32_t>(plan.choices.size());
    PlannedChoice& choice = plan.choices.emplace_back(pattern);
    Request& request = choice.request;
    request.max_tokens = options.max_tokens.value_or(-1);
    request.sampling = options.sampling;
    // The i-th choice of a prompt draws the same whatever other prompts came along.
    request.sampling.seed = options.has_seed
                                ? options.sampling.seed + static_cast<uint64_t>(i)
                                : CounterRandom(inputs.entropy, kSeedStream).Bits(index);
    request.stop_tokens = model.tokenizer->vocabulary().end_of_generation();
    request.ignore_eos = options.ignore_eos;
    request.want_logprobs = options.want_logprobs;
    request.top_logprobs = options.top_logprobs;
    request.room = room;
    request.exact = inputs.room.exact;
    SetSchedule(options, model, inputs.schedule, request);
    choice.options.index = index;
    choice.options.stop = options.stop;
    choice.options.skip_special_tokens = options.skip_special_tokens;
    choice.options.want_logprobs = options.want_logprobs;
  }
  return std::nullopt;
}

}  // namespace remontoir
