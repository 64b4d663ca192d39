// Facts about grok and deepseek2 files: what their keys mean, what stands in for missing ones, and
// what a file that contradicts itself is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/hyperparameters.h"
#include "model/model_info.h"
#include "model/model_loader.h"
#include "tests/unit/model/model_draft.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

// Three layers of width 32; experts of width 48 in layers `first_experts` ...
Draft Common(const std::string& architecture, int first_experts) {
  Draft draft;
  draft.architecture = architecture;
  draft.Number("block_count", 3);
  draft.Number("embedding_length", 32);
  draft.Number("feed_forward_length", 64);
  draft.Number("context_length", 256);
  draft.Number("expert_count", 8);
  draft.Number("expert_used_count", 2);
  draft.Number("expert_feed_forward_length", 48);
  draft.Real("attention.layer_norm_rms_epsilon", 1e-5F);
  draft.tensors["token_embd.weight"] = {32, 20};
  draft.tensors["output_norm.weight"] = {32};
  draft.Layers("attn_norm.weight", {32});
  draft.Layers("ffn_norm.weight", {32});
  draft.Layers("ffn_gate_inp.weight", {32, 8}, first_experts);
  draft.Layers("ffn_gate_exps.weight", {32, 48, 8}, first_experts);
  draft.Layers("ffn_up_exps.weight", {32, 48, 8}, first_experts);
  draft.Layers("ffn_down_exps.weight", {48, 32, 8}, first_experts);
  return draft;
}

// Four heads of 16 over two KV heads.
Draft Grok() {
  Draft draft = Common("grok", 0);
  draft.Number("attention.head_count", 4);
  draft.Number("attention.head_count_kv", 2);
  draft.Number("attention.key_length", 16);
  draft.Number("attention.value_length", 16);
  draft.Layers("attn_q.weight", {32, 64});
  draft.Layers("attn_k.weight", {32, 32});
  draft.Layers("attn_v.weight", {32, 32});
  draft.Layers("attn_output.weight", {64, 32});
  draft.Layers("attn_output_norm.weight", {32});
  draft.Layers("layer_output_norm.weight", {32});
  return draft;
}

Draft GrokWithDense() {
  Draft draft = Grok();
  draft.Layers("ffn_gate.weight", {32, 64});
  draft.Layers("ffn_up.weight", {32, 64});
  draft.Layers("ffn_down.weight", {64, 32});
  return draft;
}

// Two heads with keys of 12 + 8 and values of 10 from a latent of 24; a dense layer, then experts.
Draft DeepSeek() {
  Draft draft = Common("deepseek2", 1);
  draft.Number("leading_dense_block_count", 1);
  draft.Number("expert_shared_count", 2);
  draft.Number("attention.head_count", 2);
  draft.Number("attention.head_count_kv", 1);
  draft.Number("attention.kv_lora_rank", 24);
  draft.Number("attention.q_lora_rank", 16);
  draft.Number("attention.key_length", 32);
  draft.Number("attention.value_length", 24);
  draft.Number("attention.key_length_mla", 20);
  draft.Number("attention.value_length_mla", 10);
  draft.Number("rope.dimension_count", 8);
  draft.Layers("attn_q_a.weight", {32, 16});
  draft.Layers("attn_q_a_norm.weight", {16});
  draft.Layers("attn_q_b.weight", {16, 40});
  draft.Layers("attn_kv_a_mqa.weight", {32, 32});
  draft.Layers("attn_kv_a_norm.weight", {24});
  draft.Layers("attn_k_b.weight", {12, 24, 2});
  draft.Layers("attn_v_b.weight", {24, 10, 2});
  draft.Layers("attn_output.weight", {20, 32});
  draft.Layers("ffn_gate_shexp.weight", {32, 96}, 1);
  draft.Layers("ffn_up_shexp.weight", {32, 96}, 1);
  draft.Layers("ffn_down_shexp.weight", {96, 32}, 1);
  draft.tensors["blk.0.ffn_gate.weight"] = {32, 64};
  draft.tensors["blk.0.ffn_up.weight"] = {32, 64};
  draft.tensors["blk.0.ffn_down.weight"] = {64, 32};
  return draft;
}

// The same model as older files have it.
Draft OldDeepSeek() {
  Draft draft = DeepSeek();
  draft.keys.erase("attention.key_length_mla");
  draft.keys.erase("attention.value_length_mla");
  draft.Number("attention.head_count_kv", 2);
  draft.Number("attention.key_length", 20);
  draft.Number("attention.value_length", 10);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    draft.tensors.erase(prefix + "attn_k_b.weight");
    draft.tensors.erase(prefix + "attn_v_b.weight");
  }
  draft.Layers("attn_kv_b.weight", {24, 44});
  return draft;
}

class FileOf : public ::testing::Test {
 protected:
  Result<ModelInfo> Read(const Draft& draft, Compat compat = Compat::kAuthors) {
    return ReadModelInfo(files_.Write(draft), compat);
  }

  ModelShape ShapeOf(const Draft& draft, Compat compat = Compat::kAuthors) {
    const auto info = Read(draft, compat);
    REM_CHECK(info.ok(), info.status().message());
    return info->shape;
  }

  DraftFiles files_;
};

TEST_F(FileOf, Grok1HasItsAuthorsNumbersWithoutKeys) {
  Draft draft = Grok();
  draft.Real("router_logit_softcapping", 30);  // of converters, not of the authors
  const ModelShape shape = ShapeOf(draft);
  EXPECT_FLOAT_EQ(shape.embedding_scale, 78.38367176906169F);
  EXPECT_FLOAT_EQ(shape.logit_scale, 0.5773502691896257F);
  EXPECT_FLOAT_EQ(shape.attention_scale, 0.08838834764831845F);
  EXPECT_EQ(shape.attention_soft_cap, 30);
  EXPECT_EQ(shape.logit_soft_cap, 0);
  EXPECT_EQ(shape.router_soft_cap, 0);
  EXPECT_EQ(shape.temperature_length, 0);
  EXPECT_FALSE(shape.renormalise_gates);
  EXPECT_FALSE(shape.dense_beside_experts);
}

TEST_F(FileOf, Grok2SaysItsOwnNumbers) {
  Draft draft = GrokWithDense();
  draft.Real("embedding_scale", 90.5F);
  draft.Real("logit_scale", 0.5F);
  draft.Real("attention.output_scale", 0.25F);
  draft.Real("attn_logit_softcapping", 20);
  draft.Real("router_logit_softcapping", 25);
  draft.Real("final_logit_softcapping", 50);
  draft.Number("attention.temperature_length", 1024);
  const ModelShape shape = ShapeOf(draft);
  EXPECT_EQ(shape.embedding_scale, 90.5F);
  EXPECT_EQ(shape.logit_scale, 0.5F);
  EXPECT_EQ(shape.attention_scale, 0.25F);
  EXPECT_EQ(shape.attention_soft_cap, 20);
  EXPECT_EQ(shape.router_soft_cap, 25);
  EXPECT_EQ(shape.logit_soft_cap, 50);
  EXPECT_EQ(shape.temperature_length, 1024);
  EXPECT_TRUE(shape.dense_beside_experts);
  EXPECT_TRUE(shape.HasDense(1));
  EXPECT_TRUE(shape.HasExperts(1));
}

TEST_F(FileOf, GrokIsReadAsLlamaCppDoesWhereAskedTo) {
  Draft draft = GrokWithDense();
  draft.Real("router_logit_softcapping", 30);
  draft.Number("attention.temperature_length", 1024);
  draft.Text("rope.scaling.type", "yarn");
  draft.Real("rope.scaling.factor", 16);
  const ModelShape shape = ShapeOf(draft, Compat::kLlamaCpp);
  EXPECT_TRUE(shape.renormalise_gates);
  EXPECT_EQ(shape.router_soft_cap, 0);
  EXPECT_EQ(shape.temperature_length, 0);
  EXPECT_EQ(shape.attention_soft_cap, 30);
  const auto scaling_as = [&](Compat compat) {
    const ModelFile& file = files_.Write(draft);
    const Family* family = FindFamily("grok", compat);
    return *ReadRopeScaling(file, *family, shape);
  };
  const RopeScaling scaled = scaling_as(Compat::kLlamaCpp);
  EXPECT_EQ(scaled.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(scaled.factor, 16);
  EXPECT_EQ(scaled.beta_fast, 8);
  EXPECT_EQ(scaling_as(Compat::kAuthors).kind, RopeScaling::Kind::kNone);
}

TEST_F(FileOf, DeepSeekKeepsTheLatentAndTheRotatedPartInItsPages) {
  for (const Draft& draft : {DeepSeek(), OldDeepSeek()}) {
    const ModelShape shape = ShapeOf(draft);
    EXPECT_EQ(shape.latent.rank, 24);
    EXPECT_EQ(shape.latent.query_rank, 16);
    EXPECT_EQ(shape.latent.key_width, 20);
    EXPECT_EQ(shape.latent.value_width, 10);
    const KvLayout layout = MakeKvLayout(shape, DType::kF16);
    EXPECT_EQ(layout.page_bytes(), 3 * kKvPageTokens * 2 * (24 + 8 + 24));
    EXPECT_FLOAT_EQ(shape.attention_scale, 1 / std::sqrt(20.0F));
  }
}

TEST_F(FileOf, OldDeepSeekHasTheSameMatricesInOneTensor) {
  const auto old_file = Read(OldDeepSeek());
  const auto new_file = Read(DeepSeek());
  ASSERT_TRUE(old_file.ok()) << old_file.status().message();
  ASSERT_TRUE(new_file.ok()) << new_file.status().message();
  for (const TensorRole role : {TensorRole::kKeyUp, TensorRole::kValueUp}) {
    const TensorView& view = old_file->tensors.Layer(1, role)->view;
    EXPECT_EQ(view.rank, 3);
    EXPECT_EQ(view.shape, new_file->tensors.Layer(1, role)->view.shape);
  }
}

TEST_F(FileOf, DeepSeekHasExpertsBehindItsDenseLayers) {
  const ModelShape shape = ShapeOf(DeepSeek());
  EXPECT_FALSE(shape.HasExperts(0));
  EXPECT_TRUE(shape.HasDense(0));
  EXPECT_FALSE(shape.HasSharedExpert(0));
  EXPECT_TRUE(shape.HasExperts(1));
  EXPECT_FALSE(shape.HasDense(1));
  EXPECT_TRUE(shape.HasSharedExpert(1));
  EXPECT_EQ(shape.shared_expert_width, 96);
  EXPECT_FALSE(shape.renormalise_gates);
}

TEST_F(FileOf, DeepSeek3RoutesBySigmoidInGroups) {
  Draft draft = DeepSeek();
  draft.Number("expert_gating_func", 2);
  draft.Number("expert_group_count", 4);
  draft.Number("expert_group_used_count", 2);
  draft.Real("expert_weights_scale", 2.5F);
  draft.Flag("expert_weights_norm", true);
  draft.Layers("exp_probs_b.bias", {8}, 1);
  const ModelShape shape = ShapeOf(draft);
  EXPECT_EQ(shape.router_score, RouterScore::kSigmoid);
  EXPECT_EQ(shape.expert_groups, 4);
  EXPECT_EQ(shape.expert_groups_used, 2);
  EXPECT_EQ(shape.gate_scale, 2.5F);
  EXPECT_TRUE(shape.renormalise_gates);
}

TEST_F(FileOf, DeepSeekTakesYarnsMagnitudeIntoTheScores) {
  Draft draft = DeepSeek();
  draft.Text("rope.scaling.type", "yarn");
  draft.Real("rope.scaling.factor", 40);
  draft.Number("rope.scaling.original_context_length", 4096);
  draft.Real("rope.scaling.yarn_log_multiplier", 0.1F);
  const double magnitude = 1 + 0.1 * std::log(40);
  EXPECT_NEAR(ShapeOf(draft).attention_scale, magnitude * magnitude / std::sqrt(20), 1e-6);
}

struct Contradiction {
  const char* what;
  Draft (*valid)();
  void (*change)(Draft&);
  const char* named;     // tensor or key
  const char* expected;  // what should have been there, or what contradicts it
};

const Contradiction kContradictions[] = {
    {"a block's last norm under both names", Grok,
     [](Draft& d) { d.Layers("post_ffw_norm.weight", {32}); }, "blk.0.post_ffw_norm.weight",
     "does not go with blk.0.layer_output_norm.weight"},
    {"a block's last norm under no name", Grok,
     [](Draft& d) { d.tensors.erase("blk.1.layer_output_norm.weight"); },
     "blk.1.layer_output_norm.weight", "missing"},
    {"dense blocks in some layers", GrokWithDense,
     [](Draft& d) { d.tensors.erase("blk.2.ffn_down.weight"); }, "blk.2.ffn_down.weight",
     "missing"},
    {"dense blocks in later layers", Grok,
     [](Draft& d) {
       d.Layers("ffn_up.weight", {32, 64}, 1);
     },
     "blk.1.ffn_up.weight", "expert_count = 8"},
    {"a dense block as wide as an expert", GrokWithDense,
     [](Draft& d) {
       d.tensors["blk.0.ffn_up.weight"] = {32, 48};
     },
     "blk.0.ffn_up.weight", "expected [32, 64]"},
    {"a temperature length without a logarithm", Grok,
     [](Draft& d) { d.Number("attention.temperature_length", 1); },
     "grok.attention.temperature_length = 1", "expected 0 (none) or at least 2"},
    {"a cap below zero", Grok, [](Draft& d) { d.Real("router_logit_softcapping", -30); },
     "grok.router_logit_softcapping", "expected 0 (no cap)"},
    {"an endless scale", Grok, [](Draft& d) { d.Real("embedding_scale", INFINITY); },
     "grok.embedding_scale", "expected a finite number above 0"},
    {"a scale that isn't known", Grok,
     [](Draft& d) { d.Real("attention.temperature_scale", 0.1F); },
     "grok.attention.temperature_scale", "expected no such key"},
    {"no latent", DeepSeek, [](Draft& d) { d.keys.erase("attention.kv_lora_rank"); },
     "deepseek2.attention.kv_lora_rank", ""},
    {"an enormous latent", DeepSeek, [](Draft& d) { d.Number("attention.kv_lora_rank", 1020); },
     "deepseek2.attention.kv_lora_rank = 1020", "expected at most 1024"},
    {"pages of another width", DeepSeek, [](Draft& d) { d.Number("attention.key_length", 36); },
     "deepseek2.attention.key_length = 36", "expected 32"},
    {"values of another width", DeepSeek, [](Draft& d) { d.Number("attention.value_length", 25); },
     "deepseek2.attention.value_length = 25", "expected 24"},
    {"KV heads of its own", DeepSeek, [](Draft& d) { d.Number("attention.head_count_kv", 2); },
     "deepseek2.attention.head_count_kv = 2", "expected 1"},
    {"too few KV heads of an older file", OldDeepSeek,
     [](Draft& d) { d.Number("attention.head_count_kv", 1); },
     "deepseek2.attention.head_count_kv = 1", "expected 2"},
    {"a rotated part as wide as the key", DeepSeek,
     [](Draft& d) { d.Number("rope.dimension_count", 20); }, "deepseek2.rope.dimension_count = 20",
     "expected an even number below"},
    {"values' matrices of a missing width", DeepSeek,
     [](Draft& d) { d.keys.erase("attention.value_length_mla"); },
     "deepseek2.attention.value_length_mla", ""},
    {"both ways to make queries", DeepSeek,
     [](Draft& d) {
       d.Layers("attn_q.weight", {32, 40});
     },
     "blk.0.attn_q.weight", "attention.q_lora_rank = 16"},
    {"queries' latent without its rank", DeepSeek,
     [](Draft& d) { d.keys.erase("attention.q_lora_rank"); }, "blk.0.attn_q_a.weight",
     "attention.q_lora_rank = 0"},
    {"fused matrices beside the others", DeepSeek,
     [](Draft& d) {
       d.Layers("attn_kv_b.weight", {24, 44});
     },
     "blk.0.attn_kv_b.weight", "does not go with attention.key_length_mla"},
    {"fused matrices that aren't", OldDeepSeek,
     [](Draft& d) {
       d.Layers("attn_k_b.weight", {12, 24, 2});
     },
     "blk.0.attn_k_b.weight", "without attention.key_length_mla"},
    {"fused matrices of other heads", OldDeepSeek,
     [](Draft& d) {
       d.tensors["blk.1.attn_kv_b.weight"] = {24, 40};
     },
     "blk.1.attn_kv_b.weight", "expected [24, 44]"},
    {"matrices the wrong way round", DeepSeek,
     [](Draft& d) {
       d.tensors["blk.2.attn_k_b.weight"] = {24, 12, 2};
     },
     "blk.2.attn_k_b.weight", "expected [12, 24, 2]"},
    {"experts in a dense layer", DeepSeek,
     [](Draft& d) {
       d.tensors["blk.0.ffn_gate_inp.weight"] = {32, 8};
     },
     "blk.0.ffn_gate_inp.weight", "leading_dense_block_count = 1"},
    {"more dense layers than layers", DeepSeek,
     [](Draft& d) { d.Number("leading_dense_block_count", 4); },
     "deepseek2.leading_dense_block_count = 4", "expected 0 ... 3"},
    {"shared experts of another count", DeepSeek,
     [](Draft& d) { d.Number("expert_shared_count", 3); }, "blk.1.ffn_gate_shexp.weight",
     "expected [32, 144]"},
    {"endlessly many shared experts", DeepSeek,
     [](Draft& d) {
       d.Number("expert_feed_forward_length", 1 << 24);
       d.Number("expert_shared_count", 4096);
     },
     "deepseek2.expert_shared_count = 4096", "expected at most"},
    {"a bias of the choice by softmax", DeepSeek,
     [](Draft& d) { d.Layers("exp_probs_b.bias", {8}, 1); }, "blk.1.exp_probs_b.bias",
     "expert_gating_func = 1, expected 2"},
    {"a bias of some layers' choice", DeepSeek,
     [](Draft& d) {
       d.Number("expert_gating_func", 2);
       d.Layers("exp_probs_b.bias", {8}, 2);
     },
     "blk.2.exp_probs_b.bias", "expected it in all layers or in none"},
    {"scores of another kind", DeepSeek, [](Draft& d) { d.Number("expert_gating_func", 3); },
     "deepseek2.expert_gating_func = 3", "expected 1 ... 2"},
    {"uneven groups", DeepSeek, [](Draft& d) { d.Number("expert_group_count", 3); },
     "deepseek2.expert_group_count = 3", "expert_count = 8"},
    {"groups of too few experts", DeepSeek,
     [](Draft& d) {
       d.Number("expert_group_count", 8);
       d.Number("expert_group_used_count", 1);
     },
     "deepseek2.expert_group_used_count = 1", "expected 2 ... 8"},
};

TEST_F(FileOf, EitherThatContradictsItselfIsToldWhatWasExpected) {
  for (const Contradiction& c : kContradictions) {
    SCOPED_TRACE(c.what);
    Draft draft = c.valid();
    c.change(draft);
    const auto info = Read(draft);
    ASSERT_FALSE(info.ok());
    EXPECT_THAT(info.status().message(), HasSubstr(c.named));
    EXPECT_THAT(info.status().message(), HasSubstr(c.expected));
  }
}

}  // namespace
}  // namespace remontoir
