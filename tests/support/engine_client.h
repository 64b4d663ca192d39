// Submits requests to an engine and collects what they give, for tests.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"

namespace remontoir {

struct Answer {
  std::vector<TokenId> tokens;         // generated ones
  std::vector<float> logprobs;         // of them, if asked for
  std::vector<float> prompt_logprobs;  // of a scored prompt, from its second token on
  FinishReason finish = FinishReason::kNone;
  StopDetail detail = StopDetail::kNone;

  friend bool operator==(const Answer&, const Answer&) = default;
};

// What all answers of a test wait on, in one thread; engines notify it to their end.
inline Notifier& AnswerNotifier() {
  static Notifier notifier;
  return notifier;
}

// One request in flight.
class PendingAnswer {
 public:
  PendingAnswer(Engine& engine, Request request)
      : generation_(std::make_shared<Generation>(std::move(request), &AnswerNotifier())) {
    const Status status = engine.Submit(generation_);
    REM_CHECK(status.ok(), status.message());
  }
  ~PendingAnswer() { generation_->Cancel(); }

  Generation& generation() { return *generation_; }

  // Takes what is there; true once the last event came.
  bool Drain() {
    TokenEvent event;
    while (answer_.finish == FinishReason::kNone && generation_->TryPop(event)) {
      if (event.is_prompt) {
        if (event.has_logprob) answer_.prompt_logprobs.push_back(event.logprob);
      } else if (event.token != kNoToken) {
        answer_.tokens.push_back(event.token);
        if (event.has_logprob) answer_.logprobs.push_back(event.logprob);
      }
      answer_.finish = event.finish;
      answer_.detail = event.detail;
    }
    return answer_.finish != FinishReason::kNone;
  }

  const Answer& Wait() {
    while (!Drain()) AnswerNotifier().Wait(-1);
    return answer_;
  }

 private:
  std::shared_ptr<Generation> generation_;
  Answer answer_;
};

inline Answer Ask(Engine& engine, Request request) {
  PendingAnswer pending(engine, std::move(request));
  return pending.Wait();
}

}  // namespace remontoir
