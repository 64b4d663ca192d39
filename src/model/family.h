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
  kOutput,       // absent: the embedding serves (tied)
  kRopeFactors,  // divides the rotary frequencies; optional
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryBias,  // the three biases: all or none
  kKeyBias,
  kValueBias,
  kQueryNorm,  // of each head, before rotation
  kKeyNorm,
  kAttentionOutput,
  kAttentionPostNorm,  // of the block's output, before it joins the stream
  kFeedForwardNorm,
  kFeedForwardPostNorm,
  kGate,  // dense feed-forward
  kUp,
  kDown,
  kRouter,  // expert feed-forward
  kExpertGate,
  kExpertUp,
  kExpertDown,
};
inline constexpr int kTensorRoleCount = 24;

struct TensorName {
  TensorRole role;
  std::string_view name;  // a layer's tensors without their "blk.N."
};

// The name of a role in `names`, "" if it isn't there.
std::string_view NameOf(std::span<const TensorName> names, TensorRole role);

struct Family {
  std::string_view architecture;        // general.architecture
  std::span<const TensorName> globals;  // one each
  std::span<const TensorName> layer;    // one a layer
  RopePairing rope_pairing = RopePairing::kInterleaved;
  GateKind gate = GateKind::kSilu;
  bool renormalise_gates = true;  // chosen experts' weights sum to 1
  bool embedding_times_root_width = false;
  // Sliding windows: every window_period-th layer sees all keys, the others the last
  // `attention.sliding_window`, with rotary base windowed_rope_base. 0: no windows.
  int32_t window_period = 0;
  double windowed_rope_base = 10000;
};

// nullptr for an architecture that this build can't run.
const Family* FindFamily(std::string_view architecture);

// Names of all architectures that this build runs, for messages.
std::span<const Family* const> Families();

}  // namespace remontoir
