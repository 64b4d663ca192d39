// Facts about `remontoir inspect` as a program: broken files end with a message that names the
// field, exit code 1, in no time and in little memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace remontoir {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string ReadFile(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

Outcome Inspect(const fs::path& file, const fs::path& folder) {
  const fs::path out = folder / "out";
  const fs::path err = folder / "err";
  const pid_t child = fork();
  if (child == 0) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open(out.c_str(), flags, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), flags, 0600), STDERR_FILENO);
    execl(REMONTOIR_BINARY, REMONTOIR_BINARY, "inspect", file.c_str(), "--tensors", nullptr);
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = ReadFile(out);
  outcome.err = ReadFile(err);
  return outcome;
}

class InspectProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("inspect_test." + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(InspectProgram, PrintsWhatAGoodFileHolds) {
  const Outcome outcome = Inspect(TestData("bad/good.gguf"), folder_);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"GGUF v3", "general.architecture", "layers", "tokens        40",
                           "blk.0.attn_q.weight", "token_embd.weight"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST_F(InspectProgram, PrintsWhatItReadOfAnArchitectureItCannotRun) {
  std::string bytes = ReadFile(TestData("bad/good.gguf"));
  const std::string key = "general.architecture";
  const size_t value = bytes.find(key) + key.size() + 4 + 8;  // after the type and the length
  bytes.replace(value, 5, "zebra");
  std::ofstream(folder_ / "m.gguf", std::ios::binary) << bytes;
  const Outcome outcome = Inspect(folder_ / "m.gguf", folder_);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("blk.0.attn_q.weight"));
  EXPECT_THAT(outcome.err, HasSubstr("general.architecture"));
  EXPECT_THAT(outcome.err, HasSubstr("zebra"));
}

TEST_F(InspectProgram, NamesAFileThatIsNotThere) {
  const Outcome outcome = Inspect(folder_ / "none.gguf", folder_);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("none.gguf"));
}

}  // namespace
}  // namespace remontoir
