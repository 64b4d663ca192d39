// Facts about the name under which a model file is served.
#include "apps/local_model.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace remontoir {
namespace {

TEST(ModelNameOf, LeavesOutFolderEndingAndPartNumber) {
  const struct {
    const char* path;
    const char* name;
  } kCases[] = {
      {"model.gguf", "model"},
      {"/models/SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1"},
      {"big-00001-of-00003.gguf", "big"},
      {"big-0001-of-00003.gguf", "big-0001-of-00003"},
      {"big-00001-or-00003.gguf", "big-00001-or-00003"},
      {"-00001-of-00003.gguf", "-00001-of-00003"},
      {"no_ending", "no_ending"},
      {".gguf", ".gguf"},
  };
  for (const auto& test : kCases) EXPECT_EQ(ModelNameOf(test.path), test.name);
}

TEST(RepackCacheOf, IsBelowTheHomeUnlessAnotherFolderIsNamed) {
  const struct {
    const char* value;
    const char* home;
    const char* folder;
  } kCases[] = {
      {"auto", "/models", "/models/repacked"},
      {"off", "/models", ""},
      {"/fast/disk", "/models", "/fast/disk"},
      {"cache", "/models", "cache"},
  };
  for (const auto& test : kCases) {
    setenv("REMONTOIR_HOME", test.home, 1);
    ModelConfig config;
    config.repack_cache = test.value;
    config.repack_cache_bytes_max = 5;
    const RepackCacheOptions options = RepackCacheOf(config);
    unsetenv("REMONTOIR_HOME");
    EXPECT_EQ(options.folder, test.folder) << test.value;
    EXPECT_EQ(options.bytes_max, 5);
  }
}

}  // namespace
}  // namespace remontoir
