// Reads lines with poll, so that an interrupt is heard while a person thinks.
#include "apps/chat_terminal.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace remontoir {
namespace {

constexpr std::string_view kPrompt = "> ";
constexpr std::string_view kContinuation = "| ";
constexpr size_t kMessageBytesMax = 1 << 20;

}  // namespace

ChatTerminal::ChatTerminal(int input, Write write) : input_(input), write_(std::move(write)) {}

void ChatTerminal::Interrupt() {
  stop_.store(true);
  interrupted_.Notify();
}

ChatTerminal::Input ChatTerminal::ReadLine(std::string& line) {
  while (true) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Input::kLine;
    }
    pollfd sources[] = {{input_, POLLIN, 0}, {interrupted_.descriptor(), POLLIN, 0}};
    if (poll(sources, 2, -1) < 0) continue;
    if (sources[1].revents != 0) {
      interrupted_.Clear();
      unread_.clear();
      return Input::kInterrupted;
    }
    char bytes[4096];
    const ssize_t count = read(input_, bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0 || unread_.size() > kMessageBytesMax) {
      line = std::exchange(unread_, {});
      return line.empty() ? Input::kEnd : Input::kLine;
    }
    unread_.append(bytes, static_cast<size_t>(count));
  }
}

std::optional<std::string> ChatTerminal::ReadMessage() {
  std::string message;
  write_(kPrompt);
  while (true) {
    std::string line;
    switch (ReadLine(line)) {
      case Input::kEnd: return message.empty() ? std::nullopt : std::optional(message);
      case Input::kInterrupted:
        message.clear();
        write_("\n(Ctrl-D ends the chat)\n");
        write_(kPrompt);
        continue;
      case Input::kLine: break;
    }
    if (!line.empty() && line.back() == '\\' && message.size() < kMessageBytesMax) {
      line.back() = '\n';
      message += line;
      write_(kContinuation);
      continue;
    }
    message += line;
    if (message.find_first_not_of(" \t\n") != std::string::npos) return message;
    message.clear();
    write_(kPrompt);
  }
}

Status ChatTerminal::AnswerOnce(const std::string& message, const Answer& answer) {
  bool ends_line = true;
  const Status status = answer(
      message,
      [&](std::string_view text) {
        if (text.empty()) return;
        ends_line = text.back() == '\n';
        write_(text);
      },
      stop_);
  if (!ends_line) write_("\n");
  return status;
}

void ChatTerminal::Run(const Answer& answer) {
  while (true) {
    const std::optional<std::string> message = ReadMessage();
    if (!message) break;
    stop_.store(false);
    const Status status = AnswerOnce(*message, answer);
    if (stop_.load()) {
      interrupted_.Clear();
      write_("(stopped)\n");
    } else if (!status.ok()) {
      write_("(" + status.message() + ")\n");
    }
    write_("\n");
  }
  write_("\n");
}

Result<std::string> ReadAll(int descriptor, size_t bytes_max) {
  std::string text;
  char bytes[4096];
  while (true) {
    const ssize_t count = read(descriptor, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(std::string("reading the prompt: ") + std::strerror(errno));
    if (count == 0) return text;
    text.append(bytes, static_cast<size_t>(count));
    if (text.size() > bytes_max) {
      return InvalidArgument("the prompt is longer than " + std::to_string(bytes_max) + " bytes");
    }
  }
}

}  // namespace remontoir
