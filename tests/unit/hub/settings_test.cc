// What the environment may say.
#include "hub/settings.h"

#include <gmock/gmock.h>

#include <map>

namespace remontoir {
namespace {

using ::testing::HasSubstr;

Result<HubSettings> Read(const std::map<std::string, std::string>& variables) {
  return ReadHubSettings([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

TEST(ReadHubSettings, HasDefaults) {
  const auto settings = Read({{"HOME", "/home/me"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->home, "/home/me/.cache/remontoir");
  EXPECT_EQ(settings->endpoint.text, "https://huggingface.co");
  EXPECT_EQ(settings->token, "");
}

TEST(ReadHubSettings, TakesWhatIsSet) {
  const auto settings = Read({{"REMONTOIR_HOME", "/models//"},
                              {"HF_ENDPOINT", "http://127.0.0.1:8000/mirror/"},
                              {"HF_TOKEN", "hf_abc\n"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->home, "/models");
  EXPECT_EQ(settings->endpoint.text, "http://127.0.0.1:8000/mirror");
  EXPECT_EQ(settings->token, "hf_abc");
}

TEST(ReadHubSettings, NamesTheVariableThatIsWrong) {
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{}, "REMONTOIR_HOME"},
      {{{"HOME", "/h"}, {"HF_ENDPOINT", "hub.example"}}, "HF_ENDPOINT"},
      {{{"HOME", "/h"}, {"HF_ENDPOINT", "https://hub/?x"}}, "HF_ENDPOINT"},
      {{{"HOME", "/h"}, {"HF_TOKEN", "a\r\nX-Evil: 1"}}, "HF_TOKEN"},
      {{{"HOME", "/h"}, {"HF_TOKEN", "a b"}}, "HF_TOKEN"},
      {{{"HOME", "/h"}, {"HF_TOKEN", std::string(5000, 'a')}}, "HF_TOKEN"},
  };
  for (const auto& [variables, name] : cases) {
    const auto settings = Read(variables);
    ASSERT_FALSE(settings.ok()) << name;
    EXPECT_THAT(settings.status().message(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace remontoir
