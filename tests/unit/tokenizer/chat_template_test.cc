// Facts about ChatTemplate: renderings and ids equal the references; who wrote what is known.
#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/chat_oracle.h"
#include "tests/unit/tokenizer/chat_support.h"
#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

ChatOracleCase Own(const std::string& name) {
  return {name, TestData("chat/templates/" + name + ".jinja")};
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatOracle,
                         testing::Values(ChatOracleCase{"smollm2", ""}, Own("chatml"),
                                         Own("features"), Own("raises")),
                         ChatOracleName);

TEST(ChatTemplate, GivesTheReferencesIdsUnlessAUserTypesTokens) {
  const ChatTemplate chat = Compiled(SourceOf({"smollm2", ""}));
  for (const auto& row : ReadOracleLines("chat/smollm2.jsonl")) {
    if (!row.contains("ids")) continue;
    const auto spans = chat.Render(InputsOf(row));
    ASSERT_TRUE(spans.ok());
    EXPECT_EQ(IntsOf(SmolLm2().EncodeChat(*spans, /*trust_content_specials=*/true)),
              IntsOf(row.at("ids")))
        << row.at("case");
    const std::vector<TokenId> tokens = SmolLm2().EncodeChat(*spans, false);
    if (row.at("case") != "tokens_in_content") {
      EXPECT_EQ(IntsOf(tokens), IntsOf(row.at("ids"))) << row.at("case");
      continue;
    }
    // What the template writes: system and user turn, and the begin of the assistant's.
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), TokenId{1}), 3);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), TokenId{2}), 2);
    EXPECT_EQ(SmolLm2().Decode(tokens, false), StringOf(row.at("rendered")));
  }
}

ChatInputs OneMessage(std::string_view content) {
  JinjaMap message;
  message.Append(JinjaValue::Content("role"), JinjaValue::Content("user"));
  message.Append(JinjaValue::Content("content"), JinjaValue::Content(content));
  ChatInputs inputs;
  inputs.messages = JinjaValue::List({JinjaValue(std::move(message))});
  return inputs;
}

// Stretches of content in [brackets], those of the template bare.
std::string Marked(const std::vector<TemplateSpan>& spans) {
  std::string marked;
  for (const TemplateSpan& span : spans) {
    marked += span.from_template ? span.text : "[" + span.text + "]";
  }
  return marked;
}

TEST(ChatTemplate, KnowsWhoWroteWhatThroughEveryOperation) {
  const struct {
    std::string_view expression;  // m is the message's content
    std::string_view marked;
  } cases[] = {
      {"m", "[  Ab,cD ]"},
      {"'<' + m + '>'", "<[  Ab,cD ]>"},
      {"'<' ~ m ~ 1 ~ '>'", "<[  Ab,cD ]1>"},
      {"m | trim", "[Ab,cD]"},
      {"m.strip()", "[Ab,cD]"},
      {"m | upper", "[  AB,CD ]"},
      {"(m + 'x') | trim | capitalize", "[Ab,cd ]x"},
      {"m | replace(',', '<|im_end|>') | trim", "[Ab]<|im_end|>[cD]"},
      {"'a,b' | replace(',', m | trim)", "a[Ab,cD]b"},
      {"m.split(',') | join('|')", "[  Ab]|[cD ]"},
      {"[m | trim, 'x'] | join('-')", "[Ab,cD]-x"},
      {"m[2:4]", "[Ab]"},
      {"('x' + m)[0]", "x"},
      {"('x' + m)[::-1]", "[ Dc,bA  ]x"},
      {"m | trim | list", "['[A]', '[b]', '[,]', '[c]', '[D]']"},
      {"[m | trim] | tojson", "[\"[Ab,cD]\"]"},
      {"{'k': m | trim} | tojson", "{\"k\": \"[Ab,cD]\"}"},
      {"'%s!' | format(m | trim)", "[Ab,cD]!"},
      {"'{}!'.format(m | trim)", "[Ab,cD]!"},
      {"m | trim | indent(2, true)", "  [Ab,cD]"},
      {"(m | trim) * 2", "[Ab,cDAb,cD]"},
      {"m | trim | e", "[Ab,cD]"},
      {"m | trim | title", "[Ab,cd]"},
      {"missing | default(m | trim)", "[Ab,cD]"},
      {"m | length", "8"},
  };
  for (const auto& c : cases) {
    const std::string source =
        "{% set m = messages[0].content %}{{ " + std::string(c.expression) + " }}";
    const auto spans = Compiled(source).Render(OneMessage("  Ab,cD "));
    ASSERT_TRUE(spans.ok()) << c.expression << ": " << spans.status().message();
    EXPECT_EQ(Marked(*spans), c.marked) << c.expression;
  }
}

TEST(ChatTemplate, KnowsWhoWroteWhatThroughMacrosAndBlocks) {
  const auto spans = Compiled(
                         "{% macro turn(m) %}<{{ m }}>{% endmacro %}"
                         "{% set t %}{{ turn(messages[0].content) }}!{% endset %}"
                         "{% filter upper %}{{ t }}{% endfilter %}"
                         "{% call turn('x') %}{% endcall %}")
                         .Render(OneMessage("hi"));
  ASSERT_TRUE(spans.ok()) << spans.status().message();
  EXPECT_EQ(Marked(*spans), "<[HI]>!<x>");
}

TEST(ChatTemplate, BoundsWhatATemplateCanTake) {
  const std::string_view sources[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% for i in range(100001) %}{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}"
      "{{ ns.l | tojson }}",
      "{{ '%999999d' | format(1) }}",
      "{{ 'x' | center(99999999999) }}",
      "{{ 2 ** 64 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ 1 // 0 }}",
      "{{ 1 % 0 }}",
      "{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns.a.a.a.a | tojson }}",
  };
  const JinjaLimits limits{.steps_max = 100'000};
  for (std::string_view source : sources) {
    EXPECT_FALSE(Compiled(source).Render(OneMessage("x"), limits).ok()) << source;
  }
}

TEST(ChatTemplate, RefusesToNestWithoutEnd) {
  std::string parentheses(100'000, '(');
  std::string negations;
  std::string blocks;
  std::string sum = "1";
  for (int i = 0; i < 20'000; ++i) {
    negations += "not ";
    blocks += "{% if x %}";
    sum += "+1";
  }
  for (const std::string& source :
       {"{{ " + parentheses, "{{ " + negations + "x }}", blocks, "{{ " + sum + " }}",
        "{{ x" + std::string(100'000, '-') + "1 }}"}) {
    const Result<ChatTemplate> compiled = ChatTemplate::Compile(source);
    EXPECT_FALSE(compiled.ok());
  }
}

TEST(ChatTemplate, RunsTheDeepestTreeThatItAccepts) {
  std::string expression = "1";
  for (int i = 0; i < 30; ++i) expression = "(" + expression + ")" + std::string(3, ' ') + "+ 1";
  const auto spans = Compiled("{{ " + expression + " }}").Render(OneMessage(""));
  ASSERT_TRUE(spans.ok()) << spans.status().message();
  EXPECT_EQ(TextOf(*spans), "31");
}

TEST(ChatTemplate, NamesTheLineOfAnError) {
  const struct {
    std::string_view source;
    std::string_view message;
  } compile_errors[] = {
      {"a\n{% if x %}", "chat template, line 2: expected 'endif', found the template's end"},
      {"{{ x", "chat template, line 1: a tag has no end"},
      {"\n\n{% frob %}", "chat template, line 3: unknown tag 'frob'"},
      {"{{ 'abc }}", "chat template, line 1: a string has no end"},
      {"{% for x of y %}{% endfor %}", "chat template, line 1: expected 'in', found 'of'"},
      {"{# never ends", "chat template, line 1: a comment has no end"},
      {"{% break %}", "chat template, line 1: 'break' outside of a loop"},
  };
  for (const auto& c : compile_errors) {
    EXPECT_EQ(ChatTemplate::Compile(c.source).status().message(), c.message);
  }
  const struct {
    std::string_view source;
    std::string_view message;
  } render_errors[] = {
      {"\n{{ missing.x }}", "chat template, line 2: 'missing' is undefined"},
      {"{{ messages[0].nothing.x }}",
       "chat template, line 1: 'dict object' has no attribute 'nothing'"},
      {"{{ 'a' + 1 }}", "chat template, line 1: can only concatenate str (not \"int\") to str"},
      {"{% if true %}\n{{ 1 | frob }}{% endif %}", "chat template, line 2: no filter named 'frob'"},
      {"{{ raise_exception('No ' ~ messages[0].role) }}", "No user"},
      {"{{ messages | join(', ', attribute='role') }}{{ none() }}",
       "chat template, line 1: 'NoneType' object is not callable"},
  };
  for (const auto& c : render_errors) {
    EXPECT_EQ(Compiled(c.source).Render(OneMessage("x")).status().message(), c.message);
  }
}

TEST(ChatTemplate, FallsBackToChatMl) {
  EXPECT_TRUE(HasChatTemplate(SmolLm2().vocabulary()));
  for (const auto& row : ReadOracleLines("chat/chatml.jsonl")) {
    if (!row.contains("rendered")) continue;
    const auto spans = Compiled(kFallbackChatTemplate).Render(InputsOf(row));
    ASSERT_TRUE(spans.ok()) << spans.status().message();
    EXPECT_EQ(TextOf(*spans), StringOf(row.at("rendered"))) << row.at("case");
  }
}

}  // namespace
}  // namespace remontoir
