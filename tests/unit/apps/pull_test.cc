// Facts about what a person sees of a download, and of where a model is found.
#include "apps/pull.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace remontoir {
namespace {

TEST(ProgressDetail, SaysHowFarHowFastAndHowLong) {
  const struct {
    DownloadProgress progress;
    const char* text;
  } cases[] = {
      {{12'000'000, 98'000'000, 3.4e6, false}, "12 MB of 98 MB, 3.4 MB/s, 25 s left"},
      {{0, 98'000'000, 0, false}, "0 bytes of 98 MB"},
      {{0, 40'000'000'000, 1e8, false}, "0 bytes of 40 GB, 100 MB/s, 6 min left"},
      {{0, 40'000'000'000, 1e6, false}, "0 bytes of 40 GB, 1.0 MB/s, 11 h left"},
      {{98'000'000, 98'000'000, 3.4e6, false}, "98 MB of 98 MB, 3.4 MB/s, 0 s left"},
      {{49'000'000, 98'000'000, 3.4e6, true}, "49 MB of 98 MB"},
  };
  for (const auto& c : cases) EXPECT_EQ(ProgressDetail(c.progress), c.text);
}

TEST(LocateModel, FindsAPathWithoutAHomeAndANameInTheStore) {
  const SystemClock clock;
  const std::string home = ::testing::TempDir() + "/locate_model_test";
  std::filesystem::create_directories(home);
  std::ofstream(home + "/small.gguf") << "x";
  setenv("REMONTOIR_HOME", home.c_str(), 1);
  const auto stored = LocateModel("small", clock);
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(*stored, home + "/small.gguf");
  EXPECT_EQ(LocateModel("large", clock).status().code(), StatusCode::kNotFound);

  setenv("HF_ENDPOINT", "no address", 1);  // of no interest to a path
  EXPECT_EQ(*LocateModel(home + "/small.gguf", clock), home + "/small.gguf");
  unsetenv("HF_ENDPOINT");
  unsetenv("REMONTOIR_HOME");
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace remontoir
