// A chat with a person at a terminal: lines in, a streamed answer out, and what Ctrl-C and Ctrl-D
// mean.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/notifier.h"
#include "base/status.h"

namespace remontoir {

class ChatTerminal {
 public:
  using Write = std::function<void(std::string_view)>;
  // Streams the answer to `message` through `emit`, and ends soon after `stop` turns true.
  using Answer = std::function<Status(const std::string& message, const Write& emit,
                                      const std::atomic<bool>& stop)>;

  // Reads from the descriptor `input`; writes prompts, answers and errors through `write`.
  ChatTerminal(int input, Write write);

  // Message after message until the input ends. An answer's error is shown, and the chat goes on.
  void Run(const Answer& answer);

  // One answer without a prompt or decoration; the error, if there was one, is the caller's.
  Status AnswerOnce(const std::string& message, const Answer& answer);

  // Ctrl-C, from any thread: stops the answer that is streaming or drops the message being typed.
  void Interrupt();

 private:
  // A message, without the backslashes that joined its lines; nullopt at the end of the input.
  std::optional<std::string> ReadMessage();
  enum class Input { kLine, kInterrupted, kEnd };
  Input ReadLine(std::string& line);

  const int input_;
  const Write write_;
  Notifier interrupted_;
  std::atomic<bool> stop_{false};
  std::string unread_;  // read beyond the last line
};

// All of a descriptor up to its end, e.g. a prompt from a pipe; an error beyond `bytes_max`.
Result<std::string> ReadAll(int descriptor, size_t bytes_max);

}  // namespace remontoir
