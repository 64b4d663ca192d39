// Facts about the plans of public models, from headers of their published shapes without any data.
// The numbers are scripts/oracles/plan_numbers.py's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/loaded_engine.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8 = 8;
constexpr uint32_t kQ4K = 12;
constexpr uint32_t kQ6K = 14;
constexpr uint32_t kMXFP4 = 39;

// A header whose tensors lie one after the other.
class Header {
 public:
  explicit Header(const std::string& architecture) : architecture_(architecture) {
    file_.Key("general.architecture", ValueType::kString, StringBytes(architecture));
  }

  Header& Number(const std::string& key, uint32_t value) {
    file_.Key(architecture_ + "." + key, ValueType::kUint32, Bytes(value));
    return *this;
  }
  Header& Real(const std::string& key, float value) {
    file_.Key(architecture_ + "." + key, ValueType::kFloat32, Bytes(value));
    return *this;
  }
  Header& Flag(const std::string& key, bool value) {
    file_.Key(architecture_ + "." + key, ValueType::kBool, Bytes(static_cast<uint8_t>(value)));
    return *this;
  }
  Header& Text(const std::string& key, const std::string& value) {
    file_.Key(architecture_ + "." + key, ValueType::kString, StringBytes(value));
    return *this;
  }

  Header& Tensor(const std::string& name, const std::vector<int64_t>& shape, uint32_t type = kF32) {
    file_.TensorAt(name, shape, type, offset_);
    const DType known = *DTypeFromGgml(type);
    int64_t rows = 1;
    for (size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
    const int64_t bytes = RowBytes(known, shape[0]) * rows;
    parameters_ += shape[0] * rows;
    offset_ += static_cast<uint64_t>((bytes + 31) / 32 * 32);
    return *this;
  }

  std::string Build() const { return file_.Build(); }
  int64_t parameters() const { return parameters_; }

 private:
  const std::string architecture_;
  GgufBuilder file_;
  uint64_t offset_ = 0;
  int64_t parameters_ = 0;
};

struct Attention {
  int64_t width, heads, kv_heads, head_width;
  uint32_t type;
  int64_t value_width = head_width;
};

// What all of these models say of themselves.
void AddShape(Header& file, const Attention& attention, uint32_t layers, uint32_t feed_forward,
              uint32_t experts, uint32_t used) {
  file.Number("block_count", layers)
      .Number("embedding_length", static_cast<uint32_t>(attention.width))
      .Number("feed_forward_length", feed_forward)
      .Number("context_length", 32768)
      .Number("attention.head_count", static_cast<uint32_t>(attention.heads))
      .Number("attention.head_count_kv", static_cast<uint32_t>(attention.kv_heads))
      .Number("attention.key_length", static_cast<uint32_t>(attention.head_width))
      .Number("attention.value_length", static_cast<uint32_t>(attention.value_width))
      .Real("attention.layer_norm_rms_epsilon", 1e-5F)
      .Number("expert_count", experts)
      .Number("expert_used_count", used);
}

void AddAttention(Header& file, const std::string& layer, const Attention& a) {
  file.Tensor(layer + "attn_norm.weight", {a.width})
      .Tensor(layer + "attn_q.weight", {a.width, a.heads * a.head_width}, a.type)
      .Tensor(layer + "attn_k.weight", {a.width, a.kv_heads * a.head_width}, a.type)
      .Tensor(layer + "attn_v.weight", {a.width, a.kv_heads * a.head_width}, a.type)
      .Tensor(layer + "attn_output.weight", {a.heads * a.head_width, a.width}, a.type);
}

void AddExperts(Header& file, const std::string& layer, int64_t width, int64_t expert_width,
                int64_t experts, uint32_t type) {
  file.Tensor(layer + "ffn_gate_inp.weight", {width, experts})
      .Tensor(layer + "ffn_gate_exps.weight", {width, expert_width, experts}, type)
      .Tensor(layer + "ffn_up_exps.weight", {width, expert_width, experts}, type)
      .Tensor(layer + "ffn_down_exps.weight", {expert_width, width, experts}, type);
}

void AddGated(Header& file, const std::string& layer, const std::string& suffix, int64_t width,
              int64_t inner, uint32_t type) {
  file.Tensor(layer + "ffn_gate" + suffix + ".weight", {width, inner}, type)
      .Tensor(layer + "ffn_up" + suffix + ".weight", {width, inner}, type)
      .Tensor(layer + "ffn_down" + suffix + ".weight", {inner, width}, type);
}

std::string LayerName(uint32_t layer) { return "blk." + std::to_string(layer) + "."; }

Header Grok1() {
  const Attention attention = {6144, 48, 8, 128, kQ8};
  Header file("grok");
  AddShape(file, attention, 64, 32768, 8, 2);
  file.Real("rope.freq_base", 10000).Tensor("token_embd.weight", {6144, 131072}, kQ6K);
  file.Tensor("output_norm.weight", {6144});
  for (uint32_t i = 0; i < 64; ++i) {
    const std::string layer = LayerName(i);
    AddAttention(file, layer, attention);
    file.Tensor(layer + "attn_output_norm.weight", {6144})
        .Tensor(layer + "ffn_norm.weight", {6144})
        .Tensor(layer + "layer_output_norm.weight", {6144});
    AddExperts(file, layer, 6144, 32768, 8, kQ4K);
  }
  return file;
}

Header Grok2() {
  const Attention attention = {8192, 64, 8, 128, kQ8};
  Header file("grok");
  AddShape(file, attention, 64, 32768, 8, 2);
  file.Number("expert_feed_forward_length", 16384)
      .Real("rope.freq_base", 208533496)
      .Real("embedding_scale", 90.50967F)
      .Real("logit_scale", 0.5F)
      .Real("attention.output_scale", 0.08838835F)
      .Real("attn_logit_softcapping", 30)
      .Real("router_logit_softcapping", 30)
      .Real("final_logit_softcapping", 50)
      .Tensor("token_embd.weight", {8192, 131072}, kQ4K)
      .Tensor("output.weight", {8192, 131072}, kQ6K)
      .Tensor("output_norm.weight", {8192});
  for (uint32_t i = 0; i < 64; ++i) {
    const std::string layer = LayerName(i);
    AddAttention(file, layer, attention);
    file.Tensor(layer + "attn_output_norm.weight", {8192})
        .Tensor(layer + "ffn_norm.weight", {8192})
        .Tensor(layer + "layer_output_norm.weight", {8192});
    AddGated(file, layer, "", 8192, 32768, kQ4K);
    AddExperts(file, layer, 8192, 16384, 8, kQ4K);
  }
  return file;
}

Header Mixtral() {
  const Attention attention = {4096, 32, 8, 128, kQ8};
  Header file("llama");
  AddShape(file, attention, 32, 14336, 8, 2);
  file.Real("rope.freq_base", 1e6F)
      .Tensor("token_embd.weight", {4096, 32000}, kQ4K)
      .Tensor("output.weight", {4096, 32000}, kQ6K)
      .Tensor("output_norm.weight", {4096});
  for (uint32_t i = 0; i < 32; ++i) {
    const std::string layer = LayerName(i);
    AddAttention(file, layer, attention);
    file.Tensor(layer + "ffn_norm.weight", {4096});
    AddExperts(file, layer, 4096, 14336, 8, kQ4K);
  }
  return file;
}

Header Qwen3() {
  const Attention attention = {2048, 32, 4, 128, kQ4K};
  Header file("qwen3moe");
  AddShape(file, attention, 48, 6144, 128, 8);
  file.Number("expert_feed_forward_length", 768)
      .Real("rope.freq_base", 1e6F)
      .Tensor("token_embd.weight", {2048, 151936}, kQ4K)
      .Tensor("output.weight", {2048, 151936}, kQ6K)
      .Tensor("output_norm.weight", {2048});
  for (uint32_t i = 0; i < 48; ++i) {
    const std::string layer = LayerName(i);
    AddAttention(file, layer, attention);
    file.Tensor(layer + "attn_q_norm.weight", {128})
        .Tensor(layer + "attn_k_norm.weight", {128})
        .Tensor(layer + "ffn_norm.weight", {2048});
    AddExperts(file, layer, 2048, 768, 128, kQ4K);
  }
  return file;
}

Header GptOss() {
  const Attention attention = {2880, 64, 8, 64, kQ8};
  Header file("gpt-oss");
  AddShape(file, attention, 36, 2880, 128, 4);
  file.Number("expert_feed_forward_length", 2880)
      .Number("attention.sliding_window", 128)
      .Real("rope.freq_base", 150000)
      .Text("rope.scaling.type", "yarn")
      .Real("rope.scaling.factor", 32)
      .Number("rope.scaling.original_context_length", 4096)
      .Tensor("token_embd.weight", {2880, 201088}, kQ8)
      .Tensor("output.weight", {2880, 201088}, kQ8)
      .Tensor("output_norm.weight", {2880});
  for (uint32_t i = 0; i < 36; ++i) {
    const std::string layer = LayerName(i);
    AddAttention(file, layer, attention);
    file.Tensor(layer + "attn_q.bias", {4096})
        .Tensor(layer + "attn_k.bias", {512})
        .Tensor(layer + "attn_v.bias", {512})
        .Tensor(layer + "attn_output.bias", {2880})
        .Tensor(layer + "attn_sinks.weight", {64})
        .Tensor(layer + "post_attention_norm.weight", {2880});
    AddExperts(file, layer, 2880, 2880, 128, kMXFP4);
    file.Tensor(layer + "ffn_gate_inp.bias", {128})
        .Tensor(layer + "ffn_gate_exps.bias", {2880, 128})
        .Tensor(layer + "ffn_up_exps.bias", {2880, 128})
        .Tensor(layer + "ffn_down_exps.bias", {2880, 128});
  }
  return file;
}

void AddLatentAttention(Header& file, const std::string& layer) {
  file.Tensor(layer + "attn_norm.weight", {7168})
      .Tensor(layer + "attn_q_a.weight", {7168, 1536}, kQ4K)
      .Tensor(layer + "attn_q_a_norm.weight", {1536})
      .Tensor(layer + "attn_q_b.weight", {1536, 128 * 192}, kQ4K)
      .Tensor(layer + "attn_kv_a_mqa.weight", {7168, 576}, kQ4K)
      .Tensor(layer + "attn_kv_a_norm.weight", {512})
      .Tensor(layer + "attn_k_b.weight", {128, 512, 128}, kQ8)
      .Tensor(layer + "attn_v_b.weight", {512, 128, 128}, kQ8)
      .Tensor(layer + "attn_output.weight", {128 * 128, 7168}, kQ4K);
}

Header DeepSeekV3() {
  Header file("deepseek2");
  AddShape(file, {7168, 128, 1, 576, kQ4K, 512}, 61, 18432, 256, 8);
  file.Number("attention.key_length_mla", 192)
      .Number("attention.value_length_mla", 128)
      .Number("attention.q_lora_rank", 1536)
      .Number("attention.kv_lora_rank", 512)
      .Number("rope.dimension_count", 64)
      .Number("leading_dense_block_count", 3)
      .Number("expert_feed_forward_length", 2048)
      .Number("expert_shared_count", 1)
      .Real("expert_weights_scale", 2.5F)
      .Flag("expert_weights_norm", true)
      .Number("expert_gating_func", 2)
      .Number("expert_group_count", 8)
      .Number("expert_group_used_count", 4)
      .Tensor("token_embd.weight", {7168, 129280}, kQ4K)
      .Tensor("output.weight", {7168, 129280}, kQ6K)
      .Tensor("output_norm.weight", {7168});
  for (uint32_t i = 0; i < 61; ++i) {
    const std::string layer = LayerName(i);
    AddLatentAttention(file, layer);
    file.Tensor(layer + "ffn_norm.weight", {7168});
    if (i < 3) {
      AddGated(file, layer, "", 7168, 18432, kQ4K);
      continue;
    }
    AddExperts(file, layer, 7168, 2048, 256, kQ4K);
    file.Tensor(layer + "exp_probs_b.bias", {256});
    AddGated(file, layer, "_shexp", 7168, 2048, kQ4K);
  }
  return file;
}

struct PublicModel {
  const char* name;
  Header (*header)();
  int64_t parameters;  // as published
  int64_t weights_bytes;
  int64_t kv_token_bytes;
  int64_t activation_bytes;
};

void PrintTo(const PublicModel& model, std::ostream* out) { *out << model.name; }

class PlanOf : public testing::TestWithParam<PublicModel> {};

EnginePlan PlanHeader(const std::string& bytes, bool experts_mapped) {
  const TemporaryFolder folder;
  folder.Write("header.gguf", bytes);
  const auto file = ModelFile::OpenHeader(folder / "header.gguf");
  REM_CHECK(file.ok(), file.status().message());
  const auto info = ReadModelInfo(*file);
  REM_CHECK(info.ok(), info.status().message());
  LoadEngineOptions options;
  options.backend.threads = 2;
  options.backend.experts_mapped = experts_mapped;
  options.engine.sequences_max = 8;
  options.engine.round_tokens_max = 512;
  options.context_max = 8192;
  const auto plan = PlanEngine(*file, *info, options, int64_t{1} << 40);
  REM_CHECK(plan.ok(), plan.status().message());
  return *plan;
}

void ExpectWithin1Percent(int64_t found, int64_t wanted, const char* what) {
  EXPECT_NEAR(static_cast<double>(found), static_cast<double>(wanted),
              0.01 * static_cast<double>(wanted))
      << what;
}

TEST_P(PlanOf, IsRightWithin1Percent) {
  const PublicModel& model = GetParam();
  const Header header = model.header();
  // Published counts leave out a vector here and there.
  EXPECT_NEAR(static_cast<double>(header.parameters()), static_cast<double>(model.parameters),
              1e-6 * static_cast<double>(model.parameters));
  const EnginePlan plan = PlanHeader(header.Build(), false);
  ExpectWithin1Percent(plan.memory.weights_bytes, model.weights_bytes, "weights");
  ExpectWithin1Percent(plan.page_bytes / kKvPageTokens, model.kv_token_bytes, "keys and values");
  ExpectWithin1Percent(plan.memory.activation_bytes, model.activation_bytes, "activations");
}

// What is left to pack is less than a tenth of these models, and the file has the rest.
TEST_P(PlanOf, LeavesMappedExpertsInTheFile) {
  const std::string header = GetParam().header().Build();
  const EnginePlan resident = PlanHeader(header, false);
  const EnginePlan mapped = PlanHeader(header, true);
  EXPECT_GT(mapped.mapped_expert_bytes, resident.memory.weights_bytes / 2);
  EXPECT_LT(mapped.memory.weights_bytes, resident.memory.weights_bytes / 3);
  EXPECT_EQ(resident.mapped_expert_bytes, 0);
  ASSERT_FALSE(mapped.notes.empty());
  EXPECT_THAT(mapped.notes.back(), testing::HasSubstr("engine.experts: mapped: "));
}

const PublicModel kModels[] = {
    {"Grok1", Grok1, 315'684'820'992, 185'446'981'632, 262'144, 504'343'552},
    {"Grok2", Grok2, 269'515'497'472, 160'155'336'704, 262'144, 584'372'224},
    {"Mixtral8x7B", Mixtral, 46'702'792'704, 27'610'636'288, 131'072, 236'226'560},
    {"Qwen3_30B_A3B", Qwen3, 30'532'122'624, 17'590'630'400, 98'304, 185'419'776},
    {"GptOss120B", GptOss, 116'829'156'672, 73'508'537'088, 73'728, 233'926'656},
    {"DeepSeekV3", DeepSeekV3, 671'026'419'200, 388'489'246'720, 132'736, 1'049'763'840},
};

INSTANTIATE_TEST_SUITE_P(Models, PlanOf, testing::ValuesIn(kModels),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace remontoir
