// What a chat template sees of a request.
#include "server/template_inputs.h"

#include <gtest/gtest.h>

#include "tests/unit/server/tiny_tokenizer.h"

namespace remontoir {
namespace {

std::string Rendered(const char* source, const ChatRequest& request) {
  const Tokenizer tokenizer = MakeTinyTokenizer();
  const auto chat_template = ChatTemplate::Compile(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status().message();
  const auto inputs = MakeChatInputs(request, tokenizer.vocabulary(), 86'400 * 365);
  EXPECT_TRUE(inputs.ok()) << inputs.status().message();
  const auto spans = chat_template->Render(*inputs);
  EXPECT_TRUE(spans.ok()) << spans.status().message();
  std::string text;
  for (const TemplateSpan& span : *spans) {
    text += span.from_template ? span.text : "[" + span.text + "]";
  }
  return text;
}

TEST(MakeChatInputs, MarksEverythingOfTheRequestAsContent) {
  ChatRequest request;
  request.messages_json =
      R"([{"role":"user","content":"hi","n":[1,2.5,true,null,18446744073709551615]}])";
  request.tools_json = R"([{"name":"f"}])";
  request.chat_template_kwargs_json = R"({"mood":"good"})";
  EXPECT_EQ(Rendered("{{ bos_token }}:{{ messages[0]['content'] }}:{{ tools[0].name }}:{{ mood }}:"
                     "{{ eos_token }}",
                     request),
            "<|start|>:[hi]:[f]:[good]:<|end|>");
  EXPECT_EQ(Rendered("{% for n in messages[0].n %}{{ n is none }},{% endfor %}", request),
            "False,False,False,True,False,");
  EXPECT_EQ(Rendered("{% for key in messages[0] %}{{ key }}{% endfor %}", request),
            "[rolecontentn]");
}

TEST(MakeChatInputs, LeavesOutWhatWasNotSent) {
  ChatRequest request;
  request.messages_json = R"([{"role":"assistant","content":null}])";
  request.add_generation_prompt = false;
  EXPECT_EQ(Rendered("{{ tools is none }} {{ messages[0].content is none }} "
                     "{{ add_generation_prompt }} {{ mood is defined }}",
                     request),
            "True True False False");
}

}  // namespace
}  // namespace remontoir
