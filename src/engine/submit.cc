// The way in: what can never run is refused here, with the reason.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/loop.h"

namespace remontoir {
namespace {

Status CheckLength(const Request& request, int64_t context_max, int64_t kv_tokens_max) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  // Without max_tokens at least one token must fit.
  const int64_t generated = request.max_tokens < 0 ? 1 : request.max_tokens;
  const int64_t room = std::min(context_max, kv_tokens_max);
  if (prompt + generated <= room) return Status::Ok();
  return InvalidArgument(
      "token limit exceeded: a prompt of " + std::to_string(prompt) + " tokens and " +
      std::to_string(generated) + " to generate make " + std::to_string(prompt + generated) +
      ", but " +
      (context_max <= kv_tokens_max ? "the model's context has " : "all KV room together has ") +
      std::to_string(room));
}

Status CheckRequest(const Request& request, int32_t vocabulary_size) {
  if (request.prompt.empty()) return InvalidArgument("prompt: must hold at least one token");
  for (const TokenId token : request.prompt) {
    if (Index(token) < 0 || Index(token) >= vocabulary_size) {
      return InvalidArgument("prompt: token " + std::to_string(Index(token)) +
                             " is not in the vocabulary of " + std::to_string(vocabulary_size));
    }
  }
  if (request.max_tokens < -1) return InvalidArgument("max_tokens: must not be negative");
  if (request.top_logprobs < 0 || request.top_logprobs > kTopLogprobsMax) {
    return InvalidArgument("top_logprobs: must lie between 0 and " +
                           std::to_string(kTopLogprobsMax));
  }
  return ValidateSamplingParams(request.sampling, vocabulary_size);
}

}  // namespace

Status Engine::Loop::Submit(std::shared_ptr<Generation> generation) {
  const Request& request = generation->request();
  REM_RETURN_IF_ERROR(CheckRequest(request, runner_.shape().vocabulary_size));
  REM_RETURN_IF_ERROR(
      CheckLength(request, context_max_, rooms_.tokens_max(rooms_.IsDynamic(request))));
  {
    const std::lock_guard lock(generation->wake_mutex_);
    if (generation->engine_wake_ != nullptr) return FailedPrecondition("submitted twice");
    generation->engine_wake_ = &wake_;
  }
  AdmissionQueue::Entry entry{std::move(generation), clock_.Now()};
  const Status pushed = queue_.Push(entry);
  if (!pushed.ok()) {
    Generation& refused = *entry.generation;  // a refused push leaves the entry alone
    const std::lock_guard lock(refused.wake_mutex_);
    refused.engine_wake_ = nullptr;
    return pushed;
  }
  wake_.Notify();
  return Status::Ok();
}

}  // namespace remontoir
