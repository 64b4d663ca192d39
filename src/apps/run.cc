// Turns what a person types into requests to an engine of this process, and
// streams the answers.
#include "apps/run.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/chat_terminal.h"
#include "apps/local_model.h"
#include "apps/signal_waiter.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/notifier.h"
#include "base/random.h"
#include "tokenizer/stream_decoder.h"

namespace remontoir {
namespace {

constexpr size_t kPromptBytesMax = size_t{16} << 20;
constexpr int kExitInterrupted = 128 + SIGINT;  // as shells count it
// How long a Ctrl-C may go unnoticed between two tokens.
constexpr int kStopPollMs = 50;

struct Turn {
  std::string_view role;
  std::string content;
};

JinjaValue Messages(const std::vector<Turn>& turns) {
  std::vector<JinjaValue> messages;
  for (const Turn& turn : turns) {
    JinjaMap message;
    message.Append(JinjaValue::Template("role"), JinjaValue::Content(turn.role));
    message.Append(JinjaValue::Template("content"), JinjaValue::Content(turn.content));
    messages.emplace_back(std::move(message));
  }
  return JinjaValue::List(std::move(messages));
}

std::string SpellingOf(std::optional<TokenId> token, const Tokenizer& tokenizer) {
  return token ? tokenizer.TokenSpelling(*token) : "";
}

// Remembers a conversation and asks the engine for its next turn.
class Conversation {
 public:
  Conversation(LocalModel& model, const RunOptions& options) : model_(model), options_(options) {
    if (!options.system.empty()) turns_.push_back({"system", options.system});
  }

  // A failed turn is forgotten; a stopped one stays, as far as it came.
  Status Answer(const std::string& message, const ChatTerminal::Write& emit,
                const std::atomic<bool>& stop) {
    turns_.push_back({"user", message});
    Result<std::string> answer = AnswerTurns(emit, stop);
    if (!answer.ok()) {
      turns_.pop_back();
      return answer.status();
    }
    turns_.push_back({"assistant", std::move(answer).value()});
    return Status::Ok();
  }

 private:
  Result<std::string> AnswerTurns(const ChatTerminal::Write& emit, const std::atomic<bool>& stop) {
    REM_ASSIGN_OR_RETURN(Request request, MakeRequest());
    return Generate(std::move(request), emit, stop);
  }

  Result<Request> MakeRequest() const;
  Result<std::string> Generate(Request request, const ChatTerminal::Write& emit,
                               const std::atomic<bool>& stop);

  LocalModel& model_;
  const RunOptions& options_;
  std::vector<Turn> turns_;
};

Result<Request> Conversation::MakeRequest() const {
  Request request;
  if (model_.chat_template) {
    ChatInputs inputs;
    inputs.messages = Messages(turns_);
    inputs.bos_token = SpellingOf(model_.tokenizer.bos(), model_.tokenizer);
    inputs.eos_token = SpellingOf(model_.tokenizer.eos(), model_.tokenizer);
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &inputs.now);
    REM_ASSIGN_OR_RETURN(const std::vector<TemplateSpan> spans,
                         model_.chat_template->Render(inputs));
    request.prompt = model_.tokenizer.EncodeChat(spans, false);
  } else {
    // A model without a template continues text.
    request.prompt = model_.tokenizer.Encode(turns_.back().content, SpecialTokens::kAsText);
  }
  request.max_tokens = static_cast<int32_t>(options_.max_tokens);
  request.sampling.temperature = static_cast<float>(options_.temperature);
  request.sampling.top_p = static_cast<float>(options_.top_p);
  request.sampling.seed = options_.seed.value_or(SystemRandomBits());
  request.stop_tokens = model_.tokenizer.vocabulary().end_of_generation();
  return request;
}

Result<std::string> Conversation::Generate(Request request, const ChatTerminal::Write& emit,
                                           const std::atomic<bool>& stop) {
  Notifier notifier;
  const auto generation = std::make_shared<Generation>(std::move(request), &notifier);
  REM_RETURN_IF_ERROR(model_.engine().Submit(generation));
  StreamDecoder decoder(model_.tokenizer, /*skip_special=*/true);
  std::string answer;
  const auto pass = [&](const std::string& text) {
    answer += text;
    emit(text);
  };
  // To the last event, even when stopped: until then the engine may still
  // notify.
  FinishReason finish = FinishReason::kNone;
  for (TokenEvent event; finish == FinishReason::kNone;) {
    if (stop.load()) generation->Cancel();
    if (!generation->TryPop(event)) {
      notifier.Wait(kStopPollMs);
      continue;
    }
    finish = event.finish;
    if (event.token != kNoToken && finish != FinishReason::kStop) pass(decoder.Push(event.token));
  }
  pass(decoder.Finish());
  return answer;
}

void WriteOut(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Status Run(const RunOptions& options) {
  SetLogLevel(LogLevel::kWarning);
  std::optional<std::string> prompt = options.prompt;
  if (!prompt && isatty(STDIN_FILENO) == 0) {
    REM_ASSIGN_OR_RETURN(prompt, ReadAll(STDIN_FILENO, kPromptBytesMax));
  }
  ChatTerminal terminal(STDIN_FILENO, WriteOut);
  std::atomic<bool> loading = true;
  const SignalWaiter signals({SIGINT}, [&](int) {
    if (loading.load()) _exit(kExitInterrupted);
    terminal.Interrupt();
  });
  const SystemClock clock;
  EngineChoice choice = options.engine;
  choice.config.engine.sequences_max = 1;
  // Nobody waits for a chat of one to be swapped in, and its first line shouldn't be a warning.
  choice.config.kv_cache.lock = false;
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<LocalModel> model, OpenLocalModel(choice, clock));
  loading.store(false);
  Conversation conversation(*model, options);
  const ChatTerminal::Answer answer =
      [&](const std::string& message, const ChatTerminal::Write& emit,
          const std::atomic<bool>& stop) { return conversation.Answer(message, emit, stop); };
  if (prompt) return terminal.AnswerOnce(*prompt, answer);
  std::fprintf(stderr,
               "%s\nA line that ends in \\ goes on in the next. Ctrl-C stops an answer, "
               "Ctrl-D ends the chat.\n\n",
               Describe(*model).c_str());
  terminal.Run(answer);
  return Status::Ok();
}

}  // namespace remontoir
