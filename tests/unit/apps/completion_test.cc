// Facts about the scripts that teach shells the commands.
#include "apps/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/command_line.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

const std::vector<CompletedCommand> kCommands = {
    {"", {"--version"}, {"serve", "bench"}},
    {"serve", {"--port", "--host"}, {}},
    {"bench", {"--help"}, {"engine"}},
    {"bench engine", {"--json"}, {}},
};

TEST(CompletionScript, OffersWhatFollowsEachCommandInBash) {
  const auto script = CompletionScript("bash", kCommands);
  ASSERT_TRUE(script.ok());
  EXPECT_THAT(*script, HasSubstr(R"("") offered="serve bench --version")"));
  EXPECT_THAT(*script, HasSubstr(R"("serve"|"serve "*) offered="--port --host")"));
  EXPECT_THAT(*script, HasSubstr(R"("bench") offered="engine --help")"));
  EXPECT_THAT(*script, HasSubstr(R"("bench engine"|"bench engine "*) offered="--json")"));
}

TEST(CompletionScript, SpeaksZshAndFish) {
  EXPECT_THAT(*CompletionScript("zsh", kCommands), HasSubstr("bashcompinit"));
  EXPECT_THAT(*CompletionScript("fish", kCommands),
              HasSubstr("complete -c remontoir -n '__fish_seen_subcommand_from serve' -l port\n"));
}

TEST(CompletionScript, RefusesOtherShells) {
  EXPECT_FALSE(CompletionScript("cmd", kCommands).ok());
}

TEST(CompletionScript, KnowsEveryCommandThatCanBeTyped) {
  const char* arguments[] = {"remontoir", "completion", "bash"};
  const auto invocation = ParseCommandLine(3, arguments);
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const auto& script = std::get<CompletionOptions>(invocation->command).script;
  EXPECT_THAT(script, HasSubstr("serve run inspect pull list rm tokenize perplexity plan "
                                "train-predictor completion bench simulate eval"));
}

}  // namespace
}  // namespace remontoir
