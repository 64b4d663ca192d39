// Facts about the chat: lines become messages, Ctrl-C stops the answer or drops the message.
#include "apps/chat_terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_), 0); }
  ~Pipe() {
    Close();
    close(ends_[0]);
  }
  void Write(const std::string& text) {
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void Close() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  int reader() const { return ends_[0]; }

 private:
  int ends_[2];
};

// The messages that a chat with this input passes on.
std::vector<std::string> Messages(const std::string& input) {
  Pipe pipe;
  pipe.Write(input);
  pipe.Close();
  std::vector<std::string> messages;
  ChatTerminal terminal(pipe.reader(), [](std::string_view) {});
  terminal.Run([&](const std::string& message, const auto&, const auto&) {
    messages.push_back(message);
    return Status::Ok();
  });
  return messages;
}

TEST(ChatTerminal, TakesALineForAMessage) {
  EXPECT_THAT(Messages("one\ntwo\r\n"), ElementsAre("one", "two"));
}

TEST(ChatTerminal, JoinsLinesThatEndInABackslash) {
  EXPECT_THAT(Messages("a\\\nb\\\nc\nd\n"), ElementsAre("a\nb\nc", "d"));
}

TEST(ChatTerminal, SkipsBlankMessages) {
  EXPECT_THAT(Messages("\n   \n\\\n\none\n"), ElementsAre("one"));
}

TEST(ChatTerminal, TakesWhatIsLeftAtTheEnd) {
  EXPECT_THAT(Messages("one\ntwo"), ElementsAre("one", "two"));
  EXPECT_THAT(Messages("one\\\n"), ElementsAre("one\n"));
  EXPECT_THAT(Messages(""), ElementsAre());
}

TEST(ChatTerminal, StreamsTheAnswerAndEndsItsLine) {
  Pipe pipe;
  pipe.Write("hi\n");
  pipe.Close();
  std::string shown;
  ChatTerminal terminal(pipe.reader(), [&](std::string_view text) { shown += text; });
  terminal.Run([&](const std::string&, const auto& emit, const auto&) {
    emit("Hel");
    EXPECT_THAT(shown, HasSubstr("Hel"));
    emit("lo");
    return Status::Ok();
  });
  EXPECT_EQ(shown, "> Hello\n\n> \n");
}

TEST(ChatTerminal, GoesOnAfterAnError) {
  Pipe pipe;
  pipe.Write("a\nb\n");
  pipe.Close();
  std::string shown;
  ChatTerminal terminal(pipe.reader(), [&](std::string_view text) { shown += text; });
  int answers = 0;
  terminal.Run([&](const std::string&, const auto&, const auto&) {
    ++answers;
    return InvalidArgument("too long");
  });
  EXPECT_EQ(answers, 2);
  EXPECT_THAT(shown, HasSubstr("(too long)\n"));
}

TEST(ChatTerminal, StopsTheAnswerOnInterruptAndReadsOn) {
  Pipe pipe;
  pipe.Write("long story\nnext\n");
  pipe.Close();
  std::string shown;
  ChatTerminal terminal(pipe.reader(), [&](std::string_view text) { shown += text; });
  std::vector<std::string> messages;
  terminal.Run([&](const std::string& message, const auto&, const std::atomic<bool>& stop) {
    messages.push_back(message);
    EXPECT_FALSE(stop.load());
    if (message == "long story") {
      terminal.Interrupt();
      EXPECT_TRUE(stop.load());
    }
    return Status::Ok();
  });
  EXPECT_THAT(messages, ElementsAre("long story", "next"));
  EXPECT_THAT(shown, HasSubstr("(stopped)\n"));
}

TEST(ChatTerminal, DropsTheMessageBeingTypedOnInterrupt) {
  Pipe pipe;
  std::atomic<bool> dropped = false;
  std::vector<std::string> messages;
  std::string shown;
  ChatTerminal terminal(pipe.reader(), [&](std::string_view text) {
    shown += text;
    if (text == "| ") terminal.Interrupt();  // the first line of the message has been read
    if (text.find("Ctrl-D") != std::string_view::npos) dropped = true;
  });
  pipe.Write("half a message\\\n");
  std::thread person([&] {
    while (!dropped) std::this_thread::yield();
    pipe.Write("another\n");
    pipe.Close();
  });
  terminal.Run([&](const std::string& message, const auto&, const auto&) {
    messages.push_back(message);
    return Status::Ok();
  });
  person.join();
  EXPECT_THAT(messages, ElementsAre("another"));
}

TEST(ReadAll, ReadsAPipeToItsEndWithinItsBound) {
  Pipe pipe;
  pipe.Write("a prompt\nof two lines\n");
  pipe.Close();
  const Result<std::string> text = ReadAll(pipe.reader(), 100);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "a prompt\nof two lines\n");

  Pipe longer;
  longer.Write("0123456789");
  longer.Close();
  EXPECT_THAT(ReadAll(longer.reader(), 9).status().message(), HasSubstr("longer than 9 bytes"));
}

}  // namespace
}  // namespace remontoir
