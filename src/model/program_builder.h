// Turns a model's shape and loaded weights into the list of operations of a round.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/program.h"
#include "model/family.h"
#include "model/model_shape.h"

namespace remontoir {

struct LayerWeights {
  WeightId attention_norm = kNoWeight;
  WeightId query = kNoWeight;
  WeightId key = kNoWeight;
  WeightId value = kNoWeight;
  WeightId query_bias = kNoWeight;
  WeightId key_bias = kNoWeight;
  WeightId value_bias = kNoWeight;
  WeightId query_norm = kNoWeight;  // optional parts stay kNoWeight
  WeightId key_norm = kNoWeight;
  WeightId attention_output = kNoWeight;
  WeightId attention_post_norm = kNoWeight;
  WeightId feed_forward_norm = kNoWeight;
  WeightId feed_forward_post_norm = kNoWeight;
  // Dense: gate, up, down matrices; experts: the same of every expert, and a router.
  WeightId gate = kNoWeight;
  WeightId up = kNoWeight;
  WeightId down = kNoWeight;
  WeightId router = kNoWeight;
};

struct ModelWeights {
  WeightId embedding = kNoWeight;
  WeightId output_norm = kNoWeight;
  WeightId output = kNoWeight;  // [vocabulary][width], the embedding's own matrix when tied
  std::vector<LayerWeights> layers;
};

Program BuildProgram(const Family& family, const ModelShape& shape, const ModelWeights& weights);

}  // namespace remontoir
