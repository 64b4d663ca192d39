// Turns a model's shape and loaded weights into the list of operations of a round.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/program.h"
#include "model/family.h"
#include "model/model_shape.h"

namespace remontoir {

// Parts that a model lacks stay kNoWeight.

// A matrix, or one an expert, and its bias.
struct LinearWeights {
  WeightId matrix = kNoWeight;
  WeightId bias = kNoWeight;
};

struct FeedForwardWeights {
  LinearWeights gate;
  LinearWeights up;
  LinearWeights down;
};

struct LayerWeights {
  WeightId attention_norm = kNoWeight;
  LinearWeights query;
  // Latent attention; its matrices up to keys and values are one a head.
  LinearWeights query_down;
  WeightId query_down_norm = kNoWeight;
  LinearWeights query_up;
  LinearWeights key_value_down;
  WeightId key_value_down_norm = kNoWeight;
  WeightId key_up = kNoWeight;
  WeightId value_up = kNoWeight;
  LinearWeights key;
  LinearWeights value;
  WeightId query_norm = kNoWeight;
  WeightId key_norm = kNoWeight;
  WeightId sink_logits = kNoWeight;
  LinearWeights attention_output;
  WeightId attention_post_norm = kNoWeight;
  WeightId feed_forward_norm = kNoWeight;
  WeightId feed_forward_post_norm = kNoWeight;
  FeedForwardWeights dense;
  LinearWeights router;
  WeightId choice_bias = kNoWeight;
  FeedForwardWeights experts;
  WeightId shared_expert_router = kNoWeight;
  FeedForwardWeights shared_expert;
};

struct ModelWeights {
  WeightId embedding = kNoWeight;
  WeightId output_norm = kNoWeight;
  WeightId output = kNoWeight;  // [vocabulary][width], the embedding's own matrix when tied
  std::vector<LayerWeights> layers;
};

Program BuildProgram(const Family& family, const ModelShape& shape, const ModelWeights& weights);

}  // namespace remontoir
