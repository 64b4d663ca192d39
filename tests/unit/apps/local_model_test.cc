// Facts about the name under which a model file is served.
#include "apps/local_model.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace remontoir
