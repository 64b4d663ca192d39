// Public models' chat templates against their references: scripts/fetch_oracles brings the
// templates.
#include "tests/support/chat_oracle.h"

namespace remontoir {
namespace {

ChatOracleCase Public(const char* name, const std::string& file) {
  return {name, StoredModelPath("templates/" + file + ".jinja")};
}

INSTANTIATE_TEST_SUITE_P(
    Public, ChatOracle,
    testing::Values(Public("qwen2.5", "Qwen-Qwen2.5-7B-Instruct"),
                    Public("qwen3", "Qwen-Qwen3-0.6B"),
                    Public("llama3.1", "meta-llama-Llama-3.1-8B-Instruct"),
                    Public("llama3.3", "meta-llama-Llama-3.3-70B-Instruct"),
                    Public("mistral-nemo", "mistralai-Mistral-Nemo-Instruct-2407"),
                    Public("gemma2", "google-gemma-2-2b-it"),
                    Public("phi3.5", "microsoft-Phi-3.5-mini-instruct"),
                    Public("gpt-oss", "openai-gpt-oss-120b"),
                    Public("deepseek-v3.1", "deepseek-ai-DeepSeek-V3.1"),
                    Public("smollm3", "HuggingFaceTB-SmolLM3-3B"),
                    Public("hermes2pro-tools", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"),
                    Public("glm4.6", "GLM-4.6")),
    ChatOracleName);

}  // namespace
}  // namespace remontoir
