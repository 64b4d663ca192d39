// A model family: flags of its blocks and what its files call its tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/program.h"

namespace remontoir {

// What a tensor is for; shapes follow from the role and the ModelShape (tensor_table.h).
enum class TensorRole : uint8_t {
  kTokenEmbedding,
  kOutputNorm,
  kOutput,            // absent: the embedding serves (tied)
  kRopeFactors,       // divides the rotary frequencies
  kLongRopeFactors,   // the same in two sets: for contexts beyond the original one,
  kShortRopeFactors,  // and up to it
  kAttentionNorm,
  kQueryKeyValue,  // rows of all three, one after the other
  kQuery,
  kKey,
  kValue,
  // Latent attention (ModelShape): matrices down to the latents, their norms, and up to the heads.
  kQueryDown,
  kQueryDownNorm,
  kQueryUp,
  kKeyValueDown,
  kKeyValueDownNorm,
  kKeyValueUp,  // rows of each head's key, then of its value; otherwise in these two
  kKeyUp,       // a matrix a head, transposed
  kValueUp,     // a matrix a head
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,  // of each head, before rotation
  kKeyNorm,
  kSinkLogits,  // of each head; they join the softmax's sum
  kAttentionOutput,
  kAttentionOutputBias,
  kAttentionPostNorm,  // of the block's output, before it joins the stream
  kFeedForwardNorm,
  kFeedForwardPostNorm,
  kGateUp,  // dense feed-forward; rows of the gate, then of up
  kGate,
  kUp,
  kDown,
  kRouter,  // expert feed-forward
  kRouterBias,
  kChoiceBias,  // joins the experts' scores where they are compared, and only there
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateBias,  // a row an expert
  kExpertUpBias,
  kExpertDownBias,
  kSharedExpertRouter,  // its product's sigmoid weighs the shared expert
  kSharedExpertGate,
  kSharedExpertUp,
  kSharedExpertDown,
};
inline constexpr int kTensorRoleCount = static_cast<int>(TensorRole::kSharedExpertDown) + 1;

// Matrices, one an expert.
constexpr bool IsExpertMatrix(TensorRole role) {
  return role >= TensorRole::kExpertGate && role <= TensorRole::kExpertDown;
}

// kOptional tensors of layers stand in every layer that has the block they belong to, or in none.
enum class Need : uint8_t { kRequired, kOptional };

struct TensorName {
  TensorRole role;
  std::string_view name;  // a layer's tensors without their "blk.N."
  Need need = Need::kRequired;
  std::string_view other_name = {};  // how other files call it
};

// The name of a role in `names`, "" if it isn't there.
std::string_view NameOf(std::span<const TensorName> names, TensorRole role);

// Sliding windows of attention (`attention.sliding_window`).
enum class Windows : uint8_t {
  kNone,
  kOptional,  // where the file says how wide they are
  kRequired,
};

// Whose reading of a file to follow where they differ.
enum class Compat : uint8_t {
  kAuthors,   // of the model
  kLlamaCpp,  // the program's, which most files in GGUF were made for
};

struct Family {
  std::string_view architecture;        // general.architecture
  std::span<const TensorName> globals;  // one each
  std::span<const TensorName> layer;    // one a layer
  RopePairing rope_pairing = RopePairing::kInterleaved;
  GateKind gate = GateKind::kSilu;
  bool renormalise_gates = true;  // where the file doesn't say (ModelShape)
  // Layers of experts may have a dense block beside them; their sum is divided by sqrt(2). The
  // router's soft cap counts in such models alone: the authors have none in the others, whatever
  // key a converter wrote.
  bool dense_beside_experts = false;
  bool embedding_times_root_width = false;
  float embedding_scale = 1;  // where the file doesn't say, as the next three
  float logit_scale = 1;
  float attention_scale = 0;  // 0: from the key width
  // Queries are scaled by 1 / sqrt(key width). But for the size of the family that has this many
  // layers, where width / heads stands for the key width; files don't say.
  int32_t layers_of_odd_query_scale = 0;
  float attention_soft_cap = 0;  // where the file doesn't say; 0: none
  float logit_soft_cap = 0;      // likewise
  Windows windows = Windows::kNone;
  int32_t window_period = 0;      // ModelShape has it
  double windowed_rope_base = 0;  // of windowed layers, never scaled; 0: they turn as the others do
  // YaRN's range of blended frequencies ends at whole numbers; false: where its formula says.
  bool yarn_range_is_whole = true;
  double yarn_beta_fast = 32;  // where the file doesn't say
  // Keys (without "<architecture>.") that files of the family may have and this reading passes by.
  std::span<const std::string_view> unread_keys = {};
  const Family* as_llama_cpp = nullptr;  // how Compat::kLlamaCpp reads it; null: the same way
};

// nullptr for an architecture that this build can't run.
const Family* FindFamily(std::string_view architecture, Compat compat = Compat::kAuthors);

// Names of all architectures that this build runs, for messages.
std::span<const Family* const> Families();

}  // namespace remontoir
