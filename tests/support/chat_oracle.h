// Facts about chat templates that we have references for: renderings equal, errors as errors. The
// unit tests and the long ones say for which templates.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/json_file.h"
#include "tests/unit/tokenizer/chat_support.h"
#include "tests/unit/tokenizer/oracle.h"
#include "tokenizer/chat_template.h"

namespace remontoir {

struct ChatOracleCase {
  std::string name;  // of the references: chat/NAME.jsonl
  std::string path;  // of the template; empty: the default model's own
};

inline ChatTemplate Compiled(std::string_view source) {
  Result<ChatTemplate> compiled = ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return std::move(compiled).value();
}

inline std::string SourceOf(const ChatOracleCase& oracle) {
  return oracle.path.empty() ? SmolLm2().vocabulary().chat_template() : ReadText(oracle.path);
}

// The message that the reference's error has for a client; empty if only the failing matters.
inline std::string RaisedMessage(const std::string& error) {
  constexpr std::string_view kRaised = "TemplateError: ";
  return error.starts_with(kRaised) ? error.substr(kRaised.size()) : "";
}

class ChatOracle : public testing::TestWithParam<ChatOracleCase> {};

TEST_P(ChatOracle, RendersAsTheReference) {
  const ChatTemplate chat = Compiled(SourceOf(GetParam()));
  const auto rows = ReadOracleLines("chat/" + GetParam().name + ".jsonl");
  EXPECT_EQ(rows.size(), 24u);
  for (const auto& row : rows) {
    const auto spans = chat.Render(InputsOf(row));
    if (row.contains("error")) {
      ASSERT_FALSE(spans.ok()) << row.at("case");
      const std::string raised = RaisedMessage(StringOf(row.at("error")));
      if (!raised.empty()) {
        EXPECT_EQ(spans.status().message(), raised);
      }
      continue;
    }
    ASSERT_TRUE(spans.ok()) << row.at("case") << ": " << spans.status().message();
    EXPECT_EQ(TextOf(*spans), StringOf(row.at("rendered"))) << row.at("case");
  }
}

inline std::string ChatOracleName(const testing::TestParamInfo<ChatOracleCase>& named) {
  std::string name = named.param.name;
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
}

inline void PrintTo(const ChatOracleCase& oracle, std::ostream* out) { *out << oracle.name; }

}  // namespace remontoir
