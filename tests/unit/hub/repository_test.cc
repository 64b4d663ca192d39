// Lists of files as a hub sends them, and which file is meant.
#include "hub/repository.h"

#include <gmock/gmock.h>

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDigest(64, 'a');

std::vector<RepositoryFile> Files(const std::vector<std::string>& names) {
  std::vector<RepositoryFile> files;
  for (const std::string& name : names) files.push_back({name, 1'500'000, ""});
  return files;
}

std::vector<std::string> Names(const std::vector<RepositoryFile>& files) {
  std::vector<std::string> names;
  for (const RepositoryFile& file : files) names.push_back(file.name);
  return names;
}

TEST(ParseRepositoryListing, ReadsNamesSizesAndDigests) {
  const auto files = ParseRepositoryListing(
      R"({"id": "a/b", "siblings": [{"rfilename": "README.md", "size": 3},
          {"rfilename": "plain.gguf"},
          {"rfilename": "sized.gguf", "size": 7},
          {"rfilename": "large.gguf", "size": 134, "lfs": {"sha256": ")" +
      kDigest + R"(", "size": 1000000, "pointerSize": 134}},
          {"rfilename": "oid.gguf", "lfs": {"oid": "sha256:)" +
      std::string(64, 'B') + R"(", "size": 5}}]})");
  ASSERT_TRUE(files.ok()) << files.status().message();
  ASSERT_THAT(Names(*files), ElementsAre("plain.gguf", "sized.gguf", "large.gguf", "oid.gguf"));
  EXPECT_EQ((*files)[0].size_bytes, std::nullopt);
  EXPECT_EQ((*files)[1].size_bytes, 7);
  EXPECT_EQ((*files)[2].size_bytes, 1000000);
  EXPECT_EQ((*files)[2].sha256, kDigest);
  EXPECT_EQ((*files)[3].sha256, std::string(64, 'b'));
}

TEST(ParseRepositoryListing, LeavesOutNamesThatWouldLeaveTheStore) {
  const auto files = ParseRepositoryListing(
      R"({"siblings": [{"rfilename": "../a.gguf"}, {"rfilename": "/etc/a.gguf"},
          {"rfilename": "a/../../b.gguf"}, {"rfilename": "a\u0000.gguf"}, {"rfilename": "ok.gguf"}]})");
  ASSERT_TRUE(files.ok());
  EXPECT_THAT(Names(*files), ElementsAre("ok.gguf"));
}

TEST(ParseRepositoryListing, IgnoresSizesAndDigestsThatMakeNoSense) {
  const auto files = ParseRepositoryListing(
      R"({"siblings": [{"rfilename": "a.gguf", "size": -1, "lfs": {"sha256": "xyz", "size": 1e300}},
          {"rfilename": "b.gguf", "size": 18446744073709551615, "lfs": "no"}]})");
  ASSERT_TRUE(files.ok());
  for (const RepositoryFile& file : *files) {
    EXPECT_EQ(file.size_bytes, std::nullopt);
    EXPECT_THAT(file.sha256, IsEmpty());
  }
}

TEST(ParseRepositoryListing, NamesTheFieldThatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "no JSON"},
      {"<html>", "no JSON"},
      {std::string(100000, '['), "no JSON"},
      {"[]", "no JSON object"},
      {"{}", "siblings"},
      {R"({"siblings": {}})", "siblings"},
      {R"({"siblings": [1]})", "siblings"},
      {R"({"siblings": [{"size": 1}]})", "rfilename"},
  };
  for (const auto& [text, reason] : cases) {
    const auto files = ParseRepositoryListing(text);
    ASSERT_FALSE(files.ok()) << text;
    EXPECT_THAT(files.status().message(), HasSubstr(reason));
  }
}

TEST(ChooseFiles, FindsTheOneThatIsMeant) {
  const struct {
    const char* reference;
    std::vector<std::string> listed;
    std::vector<std::string> chosen;
  } cases[] = {
      {"a/b", {"m.Q8_0.gguf", "m.Q4_0.gguf", "m.Q4_K_M.gguf"}, {"m.Q4_K_M.gguf"}},
      {"a/b", {"m.Q8_0.gguf", "m-q4_0.gguf", "m.F16.gguf"}, {"m-q4_0.gguf"}},
      {"a/b", {"m.Q8_0.gguf", "m.F16.gguf"}, {"m.Q8_0.gguf"}},
      {"a/b", {"z.F16.gguf", "m.BF16.gguf"}, {"m.BF16.gguf"}},
      {"a/b", {"mmproj-Q8_0.gguf", "imatrix.gguf", "z.gguf"}, {"z.gguf"}},
      {"a/b:q4_k_m", {"m-Q4_K_M.gguf", "m-Q4_K_S.gguf"}, {"m-Q4_K_M.gguf"}},
      {"a/b:Q4_K", {"m-Q4_K_M.gguf", "m-Q4_K.gguf"}, {"m-Q4_K.gguf"}},
      {"a/b:Q4_0", {"m-Q4_0_4_4.gguf", "m_Q4_0.gguf"}, {"m_Q4_0.gguf"}},
      {"a/b:F16", {"m.BF16.gguf", "m.F16.gguf"}, {"m.F16.gguf"}},
      {"a/b:Q4_XS", {"m.IQ4_XS.gguf", "m.Q4_XS.gguf"}, {"m.Q4_XS.gguf"}},
      {"a/b:Q4_1", {"SmolLM2.Q4_1.gguf", "SmolLM2.Q4_0.gguf"}, {"SmolLM2.Q4_1.gguf"}},
      {"a/b:Q4_K_M", {"Q4_K_M/model.gguf", "Q8_0/model.gguf"}, {"Q4_K_M/model.gguf"}},
      {"a/b:Q8_0",
       {"m-Q8_0-00002-of-00002.gguf", "m-Q4_0.gguf", "m-Q8_0-00001-of-00002.gguf"},
       {"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}},
      {"a/b/m-00002-of-00002.gguf",
       {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "m.gguf"},
       {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}},
      {"a/b/mmproj.gguf", {"m.gguf", "mmproj.gguf"}, {"mmproj.gguf"}},
  };
  for (const auto& c : cases) {
    const auto chosen = ChooseFiles(*ParseModelReference(c.reference), Files(c.listed));
    ASSERT_TRUE(chosen.ok()) << c.reference << ": " << chosen.status().message();
    EXPECT_EQ(Names(*chosen), c.chosen) << c.reference;
  }
}

TEST(ChooseFiles, ListsWhatThereIsWhenItCannotChoose) {
  const struct {
    const char* reference;
    std::vector<std::string> listed;
    StatusCode code;
    std::vector<const char*> said;
  } cases[] = {
      {"a/b", {}, StatusCode::kNotFound, {"a/b", "no GGUF model"}},
      {"a/b", {"mmproj.gguf"}, StatusCode::kNotFound, {"only mmproj.gguf"}},
      {"a/b:Q2_K", {"m.Q8_0.gguf"}, StatusCode::kNotFound, {"Q2_K", "m.Q8_0.gguf (1.5 MB)"}},
      {"a/b/x.gguf", {"m.gguf"}, StatusCode::kNotFound, {"x.gguf", "m.gguf"}},
      {"a/b:Q8_0",
       {"m-Q8_0.gguf", "n-Q8_0.gguf", "o.gguf"},
       StatusCode::kInvalidArgument,
       {"several", "m-Q8_0.gguf", "n-Q8_0.gguf", "hf:a/b/FILE"}},
      {"a/b", {"m-Q4_0.gguf", "n-Q4_0.gguf"}, StatusCode::kInvalidArgument, {"several"}},
      {"a/b:Q8_0",
       {"m-Q8_0-00001-of-00003.gguf", "m-Q8_0-00003-of-00003.gguf"},
       StatusCode::kInvalidArgument,
       {"2 of the 3 parts"}},
  };
  for (const auto& c : cases) {
    const auto chosen = ChooseFiles(*ParseModelReference(c.reference), Files(c.listed));
    ASSERT_FALSE(chosen.ok()) << c.reference;
    EXPECT_EQ(chosen.status().code(), c.code) << chosen.status().message();
    for (const char* said : c.said) EXPECT_THAT(chosen.status().message(), HasSubstr(said));
  }
}

TEST(DescribeFiles, IsBounded) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back(std::to_string(i) + ".gguf");
  EXPECT_THAT(DescribeFiles(Files(names)), HasSubstr("19.gguf (1.5 MB) and 980 more"));
}

TEST(Sha256FromText, TakesQuotesAndPrefixes) {
  const std::string digest(64, 'a');
  for (const std::string& text : {digest, "\"" + digest + "\"", "W/\"" + digest + "\"",
                                  "sha256:" + digest, std::string(64, 'A')}) {
    EXPECT_EQ(Sha256FromText(text), digest) << text;
  }
  for (const std::string& text : {std::string(), digest.substr(1), digest + "a", "\"" + digest,
                                  std::string(64, 'g'), std::string(40, 'a')}) {
    EXPECT_EQ(Sha256FromText(text), "") << text;
  }
}

TEST(SizeText, RoundsToWhatAPersonReads) {
  const std::pair<int64_t, const char*> cases[] = {{0, "0 bytes"},
                                                   {999, "999 bytes"},
                                                   {1000, "1.0 kB"},
                                                   {97'700'000, "98 MB"},
                                                   {999'600'000, "1.0 GB"},
                                                   {4'240'000'000, "4.2 GB"},
                                                   {12'345'678'901, "12 GB"},
                                                   {int64_t{1} << 50, "1126 TB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(SizeText(bytes), text);
}

}  // namespace
}  // namespace remontoir
