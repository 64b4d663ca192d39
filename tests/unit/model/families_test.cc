// Facts about the families: each reads a file of its own, what its keys mean, and what a file that
// contradicts itself is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/model_info.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4 = 2;

// A model file before it is written: keys without their architecture, tensors by name.
struct Draft {
  std::string architecture;
  std::map<std::string, std::pair<ValueType, std::string>> keys;
  struct Tensor {
    std::vector<int64_t> shape;
    uint32_t type = kF32;
  };
  std::map<std::string, Tensor> tensors;

  void Number(const std::string& key, uint32_t value) {
    keys[key] = {ValueType::kUint32, Bytes(value)};
  }
  void Real(const std::string& key, float value) {
    keys[key] = {ValueType::kFloat32, Bytes(value)};
  }
  void Text(const std::string& key, const std::string& value) {
    keys[key] = {ValueType::kString, StringBytes(value)};
  }
  void Flag(const std::string& key, bool value) { keys[key] = {ValueType::kBool, Bytes(value)}; }
};

constexpr int kLayers = 2;
constexpr int64_t kWidth = 32;
constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadWidth = 16;  // not width / heads
constexpr int64_t kQueries = kHeads * kHeadWidth;
constexpr int64_t kKeys = kKvHeads * kHeadWidth;
constexpr int64_t kInner = 64;
constexpr int64_t kExperts = 4;
constexpr int64_t kExpertInner = 48;
constexpr int64_t kSharedInner = 96;
constexpr int64_t kVocabulary = 20;

// What a layer's tensors are like, whatever the family; files have those that their family names.
const std::map<std::string, std::vector<int64_t>> kLayerShapes = {
    {"attn_norm.weight", {kWidth}},
    {"attn_q.weight", {kWidth, kQueries}},
    {"attn_k.weight", {kWidth, kKeys}},
    {"attn_v.weight", {kWidth, kKeys}},
    {"attn_qkv.weight", {kWidth, kQueries + 2 * kKeys}},
    {"attn_q.bias", {kQueries}},
    {"attn_k.bias", {kKeys}},
    {"attn_v.bias", {kKeys}},
    {"attn_q_norm.weight", {kHeadWidth}},
    {"attn_k_norm.weight", {kHeadWidth}},
    {"attn_sinks.weight", {kHeads}},
    {"attn_output.weight", {kQueries, kWidth}},
    {"attn_output.bias", {kWidth}},
    {"post_attention_norm.weight", {kWidth}},
    {"ffn_norm.weight", {kWidth}},
    {"post_ffw_norm.weight", {kWidth}},
    {"ffn_gate.weight", {kWidth, kInner}},
    {"ffn_up.weight", {kWidth, kInner}},
    {"ffn_down.weight", {kInner, kWidth}},
    {"ffn_gate_inp.weight", {kWidth, kExperts}},
    {"ffn_gate_inp.bias", {kExperts}},
    {"ffn_gate_exps.weight", {kWidth, kExpertInner, kExperts}},
    {"ffn_up_exps.weight", {kWidth, kExpertInner, kExperts}},
    {"ffn_down_exps.weight", {kExpertInner, kWidth, kExperts}},
    {"ffn_gate_exps.bias", {kExpertInner, kExperts}},
    {"ffn_up_exps.bias", {kExpertInner, kExperts}},
    {"ffn_down_exps.bias", {kWidth, kExperts}},
    {"ffn_gate_inp_shexp.weight", {kWidth}},
    {"ffn_gate_shexp.weight", {kWidth, kSharedInner}},
    {"ffn_up_shexp.weight", {kWidth, kSharedInner}},
    {"ffn_down_shexp.weight", {kSharedInner, kWidth}},
};

struct FamilyCase {
  const char* architecture;
  bool experts = false;
};

const FamilyCase kFamilyCases[] = {
    {"llama"},          {"llama", true}, {"qwen2"},  {"qwen2moe", true}, {"qwen3"},
    {"qwen3moe", true}, {"phi3"},        {"gemma2"}, {"gemma3"},         {"gpt-oss", true},
};

// Of `experts` tensors or dense ones; of families with both kinds of models.
bool Belongs(const std::string& name, bool experts) {
  const bool dense =
      name == "ffn_gate.weight" || name == "ffn_up.weight" || name == "ffn_down.weight";
  const bool of_experts = name.find("_exps") != std::string::npos ||
                          name.find("_shexp") != std::string::npos ||
                          name.find("_inp") != std::string::npos;
  return experts ? !dense : !of_experts;
}

Draft Valid(const std::string& architecture, bool experts = false, int layers = kLayers) {
  Draft draft;
  draft.architecture = architecture;
  draft.Number("block_count", static_cast<uint32_t>(layers));
  draft.Number("embedding_length", kWidth);
  draft.Number("feed_forward_length", kInner);
  draft.Number("context_length", 256);
  draft.Number("attention.head_count", kHeads);
  draft.Number("attention.head_count_kv", kKvHeads);
  draft.Number("attention.key_length", kHeadWidth);
  draft.Number("attention.value_length", kHeadWidth);
  draft.Number("attention.sliding_window", 8);
  draft.Real("attention.layer_norm_rms_epsilon", 1e-5F);
  if (experts) {
    draft.Number("expert_count", kExperts);
    draft.Number("expert_used_count", 2);
    draft.Number("expert_feed_forward_length", kExpertInner);
    draft.Number("expert_shared_feed_forward_length", kSharedInner);
  }
  const Family* family = FindFamily(architecture);
  REM_CHECK(family != nullptr, "a family of this build");
  draft.tensors["token_embd.weight"] = {{kWidth, kVocabulary}};
  draft.tensors["output_norm.weight"] = {{kWidth}};
  for (int layer = 0; layer < layers; ++layer) {
    for (const TensorName& entry : family->layer) {
      const std::string name(entry.name);
      if (!Belongs(name, experts)) continue;
      Draft::Tensor tensor{kLayerShapes.at(name)};
      if (entry.role == TensorRole::kGateUp) tensor.shape[1] *= 2;
      draft.tensors["blk." + std::to_string(layer) + "." + name] = tensor;
    }
  }
  return draft;
}

// Reads the draft's header; the tensors have no data.
class ModelFamilies : public ::testing::Test {
 protected:
  Result<ModelInfo> Read(const Draft& draft) {
    GgufBuilder builder;
    builder.Key("general.architecture", ValueType::kString, StringBytes(draft.architecture));
    for (const auto& [key, value] : draft.keys) {
      builder.Key(draft.architecture + "." + key, value.first, value.second);
    }
    uint64_t offset = 0;
    for (const auto& [name, tensor] : draft.tensors) {
      builder.TensorAt(name, tensor.shape, tensor.type, offset);
      int64_t values = 1;
      for (const int64_t dimension : tensor.shape) values *= dimension;
      const int64_t bytes = tensor.type == kF32 ? values * 4 : values / 32 * 18;
      offset += static_cast<uint64_t>((bytes + 31) / 32 * 32);
    }
    folder_.Write("model.gguf", builder.Build());
    auto opened = ModelFile::OpenHeader(folder_ / "model.gguf");
    REM_CHECK(opened.ok(), opened.status().message());
    files_.push_back(std::make_unique<ModelFile>(std::move(*opened)));
    return ReadModelInfo(*files_.back());
  }

  ModelShape ShapeOf(const Draft& draft) {
    const auto info = Read(draft);
    REM_CHECK(info.ok(), info.status().message());
    return info->shape;
  }

 private:
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<ModelFile>> files_;  // what was read points into them
};

TEST_F(ModelFamilies, ReadTheirOwnFiles) {
  for (const FamilyCase& c : kFamilyCases) {
    SCOPED_TRACE(c.architecture);
    const auto info = Read(Valid(c.architecture, c.experts));
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_EQ(info->shape.experts, c.experts ? kExperts : 0);
    EXPECT_TRUE(info->shape.tied_embedding);
    for (const TensorRole role : {TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue}) {
      const TensorInfo* tensor = info->tensors.Layer(1, role);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->view.rows(), role == TensorRole::kQuery ? kQueries : kKeys);
    }
  }
}

TEST_F(ModelFamilies, GiveTheRowsOfAFusedTensorToTheirRoles) {
  Draft draft = Valid("phi3");
  draft.tensors["blk.0.attn_qkv.weight"].type = kQ4;  // rows of 18 bytes
  const auto info = Read(draft);
  ASSERT_TRUE(info.ok()) << info.status().message();
  const auto offset = [&](TensorRole role) {
    return static_cast<int64_t>(info->tensors.Layer(0, role)->file_offset -
                                info->tensors.Layer(0, TensorRole::kQuery)->file_offset);
  };
  EXPECT_EQ(offset(TensorRole::kKey), 18 * kQueries);
  EXPECT_EQ(offset(TensorRole::kValue), 18 * (kQueries + kKeys));
  EXPECT_EQ(info->tensors.Layer(0, TensorRole::kQuery)->view.size_bytes, 18 * kQueries);
  const TensorInfo* gate = info->tensors.Layer(1, TensorRole::kGate);
  const TensorInfo* up = info->tensors.Layer(1, TensorRole::kUp);
  EXPECT_EQ(static_cast<int64_t>(up->file_offset - gate->file_offset), 4 * kWidth * kInner);
  EXPECT_EQ(up->view.rows(), kInner);
}

TEST_F(ModelFamilies, TakeBiasesOfExpertsAsOneVector) {
  const auto info = Read(Valid("gpt-oss", true));
  ASSERT_TRUE(info.ok()) << info.status().message();
  const TensorInfo* bias = info->tensors.Layer(0, TensorRole::kExpertUpBias);
  EXPECT_EQ(bias->view.rank, 1);
  EXPECT_EQ(bias->view.columns(), kExpertInner * kExperts);
}

TEST_F(ModelFamilies, WindowTheLayersThatTheirPeriodSays) {
  const struct {
    const char* architecture;
    bool experts;
    std::vector<int> windowed;  // of eight layers
  } kCases[] = {
      {"gemma2", false, {1, 0, 1, 0, 1, 0, 1, 0}}, {"gemma3", false, {1, 1, 1, 1, 1, 0, 1, 1}},
      {"gpt-oss", true, {1, 0, 1, 0, 1, 0, 1, 0}}, {"phi3", false, {1, 1, 1, 1, 1, 1, 1, 1}},
      {"qwen3", false, {0, 0, 0, 0, 0, 0, 0, 0}},
  };
  for (const auto& c : kCases) {
    const ModelShape shape = ShapeOf(Valid(c.architecture, c.experts, 8));
    for (int layer = 0; layer < 8; ++layer) {
      EXPECT_EQ(shape.IsWindowed(layer), c.windowed[static_cast<size_t>(layer)] == 1)
          << c.architecture << " " << layer;
    }
  }
}

TEST_F(ModelFamilies, SeeAllKeysWhereAnOptionalWindowIsMissingOrZero) {
  Draft draft = Valid("phi3");
  draft.Number("attention.sliding_window", 0);
  EXPECT_FALSE(ShapeOf(draft).IsWindowed(0));
  draft.keys.erase("attention.sliding_window");
  EXPECT_FALSE(ShapeOf(draft).IsWindowed(0));
}

TEST_F(ModelFamilies, HaveRotaryFactorsForLongAndShortContextsOrNone) {
  Draft draft = Valid("phi3");
  draft.tensors["rope_factors_long.weight"].shape = {kHeadWidth / 2};
  EXPECT_THAT(Read(draft).status().message(), HasSubstr("rope_factors_short.weight is missing"));
  draft.tensors["rope_factors_short.weight"].shape = {kHeadWidth / 2};
  EXPECT_TRUE(Read(draft).ok());
  draft.Real("rope.scaling.attn_factor", 0);
  EXPECT_THAT(Read(draft).status().message(), HasSubstr("phi3.rope.scaling.attn_factor"));
}

TEST_F(ModelFamilies, CapAsTheFileSaysOrTheirAuthorsDid) {
  Draft draft = Valid("gemma2");
  EXPECT_EQ(ShapeOf(draft).attention_soft_cap, 50);
  EXPECT_EQ(ShapeOf(draft).logit_soft_cap, 30);
  draft.Real("attn_logit_softcapping", 20);
  draft.Real("final_logit_softcapping", 0);
  EXPECT_EQ(ShapeOf(draft).attention_soft_cap, 20);
  EXPECT_EQ(ShapeOf(draft).logit_soft_cap, 0);
  EXPECT_EQ(ShapeOf(Valid("qwen3")).attention_soft_cap, 0);
}

TEST_F(ModelFamilies, ScaleQueriesByTheHeadsWidthButForOneSize) {
  Draft draft = Valid("gemma2");
  EXPECT_FLOAT_EQ(ShapeOf(draft).attention_scale, 1 / std::sqrt(16.0F));
  EXPECT_FLOAT_EQ(ShapeOf(Valid("gemma2", false, 46)).attention_scale, 1 / std::sqrt(8.0F));
  EXPECT_FLOAT_EQ(ShapeOf(Valid("gemma3", false, 62)).attention_scale, 1 / std::sqrt(8.0F));
  EXPECT_FLOAT_EQ(ShapeOf(Valid("qwen3", false, 46)).attention_scale, 1 / std::sqrt(16.0F));
  draft.Real("attention.scale", 0.125F);
  EXPECT_FLOAT_EQ(ShapeOf(draft).attention_scale, 0.125F);
}

TEST_F(ModelFamilies, RenormaliseGatesAsTheFileSaysOrTheirAuthorsDid) {
  Draft draft = Valid("qwen2moe", true);
  EXPECT_FALSE(ShapeOf(draft).renormalise_gates);
  draft.Flag("expert_weights_norm", true);
  EXPECT_TRUE(ShapeOf(draft).renormalise_gates);
  EXPECT_TRUE(ShapeOf(Valid("qwen3moe", true)).renormalise_gates);
}

struct Contradiction {
  const char* what;
  const char* architecture;
  bool experts;
  void (*change)(Draft&);
  const char* named;     // file, tensor or key
  const char* expected;  // what should have been there
};

const Contradiction kContradictions[] = {
    {"biases are missing", "qwen2", false, [](Draft& d) { d.tensors.erase("blk.1.attn_k.bias"); },
     "blk.1.attn_k.bias", "missing"},
    {"a bias is too short", "qwen2", false,
     [](Draft& d) { d.tensors["blk.0.attn_q.bias"].shape = {kQueries - 1}; }, "blk.0.attn_q.bias",
     "expected [64]"},
    {"a bias is in blocks", "qwen2", false,
     [](Draft& d) { d.tensors["blk.0.attn_q.bias"].type = kQ4; }, "blk.0.attn_q.bias",
     "expected F32, F16 or BF16"},
    {"biases stand in some layers", "llama", false,
     [](Draft& d) {
       for (const char* name : {"attn_q.bias", "attn_k.bias", "attn_v.bias"}) {
         d.tensors.erase(std::string("blk.1.") + name);
       }
     },
     "blk.1.attn_q.bias", "expected it in all layers or in none"},
    {"one bias of three", "llama", false,
     [](Draft& d) {
       d.tensors.erase("blk.0.attn_v.bias");
       d.tensors.erase("blk.1.attn_v.bias");
     },
     "blk.0.attn_v.bias", "expected biases of queries, keys and values or none"},
    {"a dense family has experts", "qwen3", false, [](Draft& d) { d.Number("expert_count", 4); },
     "qwen3.expert_count = 4", "expected 0"},
    {"an expert family has none", "qwen3moe", true, [](Draft& d) { d.Number("expert_count", 0); },
     "qwen3moe.expert_count = 0", "expected 1"},
    {"experts aren't counted", "qwen3moe", true, [](Draft& d) { d.keys.erase("expert_count"); },
     "qwen3moe.expert_count", ""},
    {"more experts used than there are", "qwen3moe", true,
     [](Draft& d) { d.Number("expert_used_count", 5); }, "qwen3moe.expert_used_count = 5",
     "expected 1 ... 4"},
    {"experts of another count", "qwen3moe", true,
     [](Draft& d) { d.tensors["blk.0.ffn_up_exps.weight"].shape[2] = 3; },
     "blk.0.ffn_up_exps.weight", "expected [32, 48, 4]"},
    {"a head norm as wide as all heads", "qwen3", false,
     [](Draft& d) { d.tensors["blk.1.attn_q_norm.weight"].shape = {kQueries}; },
     "blk.1.attn_q_norm.weight", "expected [16]"},
    {"head norms are missing", "qwen3", false,
     [](Draft& d) { d.tensors.erase("blk.0.attn_k_norm.weight"); }, "blk.0.attn_k_norm.weight",
     "missing"},
    {"dense blocks beside experts", "llama", true,
     [](Draft& d) {
       d.tensors["blk.0.ffn_up.weight"].shape = {kWidth, kInner};
     },
     "blk.0.ffn_up.weight", "expert_count = 4"},
    {"the shared expert is missing", "qwen2moe", true,
     [](Draft& d) { d.tensors.erase("blk.0.ffn_up_shexp.weight"); }, "blk.0.ffn_up_shexp.weight",
     "missing"},
    {"the shared expert is as wide as the others", "qwen2moe", true,
     [](Draft& d) { d.tensors["blk.0.ffn_down_shexp.weight"].shape[0] = kExpertInner; },
     "blk.0.ffn_down_shexp.weight", "expected [96, 32]"},
    {"the shared expert's gate is a matrix", "qwen2moe", true,
     [](Draft& d) {
       d.tensors["blk.1.ffn_gate_inp_shexp.weight"].shape = {kWidth, 2};
     },
     "blk.1.ffn_gate_inp_shexp.weight", "expected [32]"},
    {"a shared expert of no width", "qwen2moe", true,
     [](Draft& d) { d.Number("expert_shared_feed_forward_length", 0); },
     "qwen2moe.expert_shared_feed_forward_length = 0", "expected 1"},
    {"renormalising isn't yes or no", "qwen2moe", true,
     [](Draft& d) { d.Number("expert_weights_norm", 1); }, "qwen2moe.expert_weights_norm", ""},
    {"fused rows of one part too few", "phi3", false,
     [](Draft& d) { d.tensors["blk.0.attn_qkv.weight"].shape[1] = kQueries + kKeys; },
     "blk.0.attn_qkv.weight", "expected [32, 128]"},
    {"gate and up aren't fused", "phi3", false,
     [](Draft& d) { d.tensors["blk.0.ffn_up.weight"].shape[1] = kInner; }, "blk.0.ffn_up.weight",
     "expected [32, 128]"},
    {"separate projections", "phi3", false,
     [](Draft& d) {
       d.tensors["blk.0.attn_q.weight"].shape = {kWidth, kQueries};
     },
     "blk.0.attn_q.weight", "no place"},
    {"a window of nothing", "gemma2", false,
     [](Draft& d) { d.Number("attention.sliding_window", 0); },
     "gemma2.attention.sliding_window = 0", "expected 1"},
    {"no window", "gemma2", false, [](Draft& d) { d.keys.erase("attention.sliding_window"); },
     "gemma2.attention.sliding_window", ""},
    {"a cap below zero", "gemma2", false, [](Draft& d) { d.Real("attn_logit_softcapping", -50); },
     "gemma2.attn_logit_softcapping", "expected 0 (no cap) or a finite number above it"},
    {"a cap that is no number", "gemma2", false,
     [](Draft& d) { d.Real("final_logit_softcapping", NAN); }, "gemma2.final_logit_softcapping",
     "expected 0 (no cap) or a finite number above it"},
    {"a cap in whole numbers", "gemma2", false,
     [](Draft& d) { d.Number("final_logit_softcapping", 30); }, "gemma2.final_logit_softcapping",
     ""},
    {"a scale of nothing", "gemma2", false, [](Draft& d) { d.Real("attention.scale", 0); },
     "gemma2.attention.scale", "expected a finite number above 0"},
    {"a post-norm is missing", "gemma2", false,
     [](Draft& d) { d.tensors.erase("blk.1.post_ffw_norm.weight"); }, "blk.1.post_ffw_norm.weight",
     "missing"},
    {"a rotary factor too many", "phi3", false,
     [](Draft& d) {
       d.tensors["rope_factors_long.weight"].shape = {kHeadWidth / 2};
       d.tensors["rope_factors_short.weight"].shape = {kHeadWidth / 2 + 1};
     },
     "rope_factors_short.weight", "expected [8]"},
    {"a sink a KV head", "gpt-oss", true,
     [](Draft& d) { d.tensors["blk.0.attn_sinks.weight"].shape = {kKvHeads}; },
     "blk.0.attn_sinks.weight", "expected [4]"},
    {"the router's bias is missing", "gpt-oss", true,
     [](Draft& d) { d.tensors.erase("blk.0.ffn_gate_inp.bias"); }, "blk.0.ffn_gate_inp.bias",
     "missing"},
    {"biases of too few experts", "gpt-oss", true,
     [](Draft& d) { d.tensors["blk.1.ffn_down_exps.bias"].shape[1] = 3; },
     "blk.1.ffn_down_exps.bias", "expected [32, 4]"},
    {"a stretch without its factor", "gpt-oss", true,
     [](Draft& d) { d.Text("rope.scaling.type", "yarn"); }, "gpt-oss.rope.scaling.factor", ""},
    {"a stretch of nothing", "gpt-oss", true,
     [](Draft& d) {
       d.Text("rope.scaling.type", "yarn");
       d.Real("rope.scaling.factor", 0);
     },
     "gpt-oss.rope.scaling.factor", "expected a finite number above 0"},
};

TEST_F(ModelFamilies, NameWhatContradictsAndWhatWasExpected) {
  for (const Contradiction& c : kContradictions) {
    SCOPED_TRACE(std::string(c.architecture) + ": " + c.what);
    Draft draft = Valid(c.architecture, c.experts);
    c.change(draft);
    const auto info = Read(draft);
    ASSERT_FALSE(info.ok());
    EXPECT_THAT(info.status().message(), HasSubstr(c.named));
    EXPECT_THAT(info.status().message(), HasSubstr(c.expected));
  }
}

}  // namespace
}  // namespace remontoir
