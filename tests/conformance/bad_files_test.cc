// Broken model files from outside: `inspect` names what is wrong, fast, in little memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/json_file.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

struct RunResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string err;
  int64_t peak_bytes = 0;
  double seconds = 0;
};

RunResult RunInspect(const std::string& file, const std::string& err_path) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    dup2(open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    execl(REMONTOIR_BINARY, "remontoir", "inspect", file.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  RunResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.err = ReadText(err_path);
  result.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool NamesOneOf(const std::string& message, const boost::json::array& names) {
  return std::any_of(names.begin(), names.end(), [&](const boost::json::value& name) {
    return Lower(message).find(Lower(std::string(name.as_string()))) != std::string::npos;
  });
}

TEST(Inspect, NamesWhatIsWrongWithEveryBrokenGguf) {
  const std::string folder = testing::TempDir() + "bad_files_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  // A name that says nothing, so that only the file's content can be named.
  const std::string neutral = folder + "/m.gguf";
  int files = 0;
  const auto manifest = ReadJson(TestData("bad/manifest.json"));
  for (const auto& entry : manifest.as_array()) {
    const std::string name(entry.at("file").as_string());
    if (!name.ends_with(".gguf")) continue;
    ++files;
    std::filesystem::copy_file(TestData("bad/" + name), neutral,
                               std::filesystem::copy_options::overwrite_existing);
    const RunResult result = RunInspect(neutral, folder + "/stderr");
    const std::string expect(entry.at("expect").as_string());
    if (expect == "ok") {
      EXPECT_EQ(result.exit_code, 0) << name << ": " << result.err;
    } else if (expect == "error" || result.exit_code != 0) {
      EXPECT_EQ(result.exit_code, 1) << name;
      std::string message = result.err;
      for (size_t at; (at = message.find(neutral)) != std::string::npos;) {
        message.erase(at, neutral.size());
      }
      EXPECT_TRUE(NamesOneOf(message, entry.at("must_name").as_array())) << name << ": " << message;
    }
#ifndef __SANITIZE_ADDRESS__
    EXPECT_LE(result.peak_bytes, int64_t{64} << 20) << name;
#endif
    EXPECT_LT(result.seconds, 1.0) << name;
  }
  EXPECT_EQ(files, 54);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace remontoir
