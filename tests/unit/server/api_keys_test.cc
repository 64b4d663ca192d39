// Keys from a file, and who gets in with them.
#include "server/api_keys.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

namespace remontoir {
namespace {

using ::testing::HasSubstr;

class KeyFile {
 public:
  explicit KeyFile(std::string_view text)
      : path_(::testing::TempDir() + "api_keys_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(path_) << text;
  }
  ~KeyFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(ApiKeys, AllowWhoShowsAKey) {
  const ApiKeys keys({"sk-one", "sk-other"});
  const std::pair<const char*, bool> cases[] = {
      {"Bearer sk-one", true},        {"Bearer sk-other", true}, {"bearer sk-one", true},
      {"Bearer  sk-one ", true},      {"Bearer sk-on", false},   {"Bearer sk-onee", false},
      {"Bearer sk-onesk-one", false}, {"Bearer ", false},        {"Bearer", false},
      {"Basic sk-one", false},        {"sk-one", false},         {"", false}};
  for (const auto& [authorization, allowed] : cases) {
    EXPECT_EQ(keys.Allows(authorization), allowed) << authorization;
  }
}

TEST(ApiKeys, AllowEverybodyWhenThereAreNone) { EXPECT_TRUE(ApiKeys().Allows("")); }

TEST(ApiKeys, AreReadLineByLine) {
  const KeyFile file("# for the team\n\n  sk-one \r\nsk-two");
  const auto keys = ApiKeys::Load(file.path());
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE(keys->Allows("Bearer sk-one"));
  EXPECT_TRUE(keys->Allows("Bearer sk-two"));
  EXPECT_FALSE(keys->Allows("Bearer # for the team"));
}

TEST(ApiKeys, RefuseAFileWithoutAKeyByName) {
  const KeyFile file("# nothing\n\n");
  const auto keys = ApiKeys::Load(file.path());
  ASSERT_FALSE(keys.ok());
  EXPECT_THAT(keys.status().message(), HasSubstr(file.path()));
  const auto missing = ApiKeys::Load(file.path() + ".not-there");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.status().message(), HasSubstr(".not-there"));
}

}  // namespace
}  // namespace remontoir
