// Facts about what models that people run would take, planned from headers with their shapes.
#include <gtest/gtest.h>

#include <string>

#include "model/model_info.h"
#include "model/model_loader.h"
#include "model/model_memory.h"
#include "tests/unit/model/model_draft.h"

namespace remontoir {
namespace {

constexpr int64_t kVocabulary = 131072;

void AddExperts(Draft& draft, int64_t width, int64_t inner, int64_t experts, int first) {
  draft.Number("expert_count", static_cast<uint32_t>(experts));
  draft.Number("expert_feed_forward_length", static_cast<uint32_t>(inner));
  draft.Layers("ffn_gate_inp.weight", {width, experts}, first);
  draft.Layers("ffn_gate_exps.weight", {width, inner, experts}, first);
  draft.Layers("ffn_up_exps.weight", {width, inner, experts}, first);
  draft.Layers("ffn_down_exps.weight", {inner, width, experts}, first);
}

Draft Common(const std::string& architecture, int layers, int64_t width, int64_t vocabulary) {
  Draft draft{.architecture = architecture, .layers = layers};
  draft.Number("block_count", static_cast<uint32_t>(layers));
  draft.Number("embedding_length", static_cast<uint32_t>(width));
  draft.Real("attention.layer_norm_rms_epsilon", 1e-5F);
  draft.tensors["token_embd.weight"] = {width, vocabulary};
  draft.tensors["output_norm.weight"] = {width};
  draft.Layers("attn_norm.weight", {width});
  draft.Layers("ffn_norm.weight", {width});
  return draft;
}

// Heads of 128 over eight KV heads.
Draft Grok(int64_t width, int64_t heads, int64_t expert_width) {
  Draft draft = Common("grok", 64, width, kVocabulary);
  draft.Number("feed_forward_length", 32768);
  draft.Number("context_length", 8192);
  draft.Number("attention.head_count", static_cast<uint32_t>(heads));
  draft.Number("attention.head_count_kv", 8);
  draft.Number("attention.key_length", 128);
  draft.Number("attention.value_length", 128);
  draft.Number("expert_used_count", 2);
  AddExperts(draft, width, expert_width, 8, 0);
  draft.Layers("attn_q.weight", {width, heads * 128});
  draft.Layers("attn_k.weight", {width, 1024});
  draft.Layers("attn_v.weight", {width, 1024});
  draft.Layers("attn_output.weight", {heads * 128, width});
  draft.Layers("attn_output_norm.weight", {width});
  draft.Layers("layer_output_norm.weight", {width});
  return draft;
}

Draft Grok1() { return Grok(6144, 48, 32768); }

Draft Grok2() {
  Draft draft = Grok(8192, 64, 16384);
  draft.tensors["output.weight"] = {8192, kVocabulary};
  draft.Layers("ffn_gate.weight", {8192, 32768});
  draft.Layers("ffn_up.weight", {8192, 32768});
  draft.Layers("ffn_down.weight", {32768, 8192});
  return draft;
}

Draft DeepSeek3() {
  Draft draft = Common("deepseek2", 61, 7168, 129280);
  draft.tensors["output.weight"] = {7168, 129280};
  draft.Number("feed_forward_length", 18432);
  draft.Number("context_length", 163840);
  draft.Number("leading_dense_block_count", 3);
  draft.Number("expert_used_count", 8);
  draft.Number("expert_shared_count", 1);
  draft.Number("expert_gating_func", 2);
  draft.Number("attention.head_count", 128);
  draft.Number("attention.head_count_kv", 1);
  draft.Number("attention.kv_lora_rank", 512);
  draft.Number("attention.q_lora_rank", 1536);
  draft.Number("attention.key_length", 576);
  draft.Number("attention.value_length", 512);
  draft.Number("attention.key_length_mla", 192);
  draft.Number("attention.value_length_mla", 128);
  draft.Number("rope.dimension_count", 64);
  AddExperts(draft, 7168, 2048, 256, 3);
  draft.Layers("exp_probs_b.bias", {256}, 3);
  draft.Layers("attn_q_a.weight", {7168, 1536});
  draft.Layers("attn_q_a_norm.weight", {1536});
  draft.Layers("attn_q_b.weight", {1536, 128 * 192});
  draft.Layers("attn_kv_a_mqa.weight", {7168, 576});
  draft.Layers("attn_kv_a_norm.weight", {512});
  draft.Layers("attn_k_b.weight", {128, 512, 128});
  draft.Layers("attn_v_b.weight", {512, 128, 128});
  draft.Layers("attn_output.weight", {128 * 128, 7168});
  draft.Layers("ffn_gate_shexp.weight", {7168, 2048}, 3);
  draft.Layers("ffn_up_shexp.weight", {7168, 2048}, 3);
  draft.Layers("ffn_down_shexp.weight", {2048, 7168}, 3);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    draft.tensors[prefix + "ffn_gate.weight"] = {7168, 18432};
    draft.tensors[prefix + "ffn_up.weight"] = {7168, 18432};
    draft.tensors[prefix + "ffn_down.weight"] = {18432, 7168};
  }
  return draft;
}

// Parameters as their authors count them; an embedding with a head beside it is in no sum.
TEST(PlannedModels, TakeWhatTheirAuthorsCount) {
  const struct {
    const char* name;
    Draft (*draft)();
    double parameters;
    double embedding;
    int64_t kv_bytes_a_token;  // in float16
  } kCases[] = {
      {"Grok-1", Grok1, 315.7e9, 0, int64_t{256} << 10},
      {"Grok-2", Grok2, 269.5e9, 131072.0 * 8192, int64_t{256} << 10},
      {"DeepSeek-V3", DeepSeek3, 671.0e9, 129280.0 * 7168, int64_t{61} * (576 + 512) * 2},
  };
  DraftFiles files;
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const ModelFile& file = files.Write(c.draft());
    const auto info = ReadModelInfo(file);
    ASSERT_TRUE(info.ok()) << info.status().message();
    LoadOptions options;
    options.context_max = 8192;
    const ModelMemory memory = PlanModelMemory(*info, options, 16, false, false);
    const double weights = 4 * (c.parameters - c.embedding);
    EXPECT_NEAR(static_cast<double>(memory.weights_bytes), weights, 0.01 * weights);
    EXPECT_EQ(MakeKvLayout(info->shape, DType::kF16).token_bytes(), c.kv_bytes_a_token);
    EXPECT_LT(memory.activation_bytes, int64_t{8} << 30);
  }
}

}  // namespace
}  // namespace remontoir
