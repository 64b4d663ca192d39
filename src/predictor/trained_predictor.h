// A trained predictor: parameters with what they need to be read right, and its safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "predictor/features.h"
#include "predictor/network.h"

namespace remontoir {

struct TrainedPredictor {
  NetworkShape shape;     // hidden 1..kHiddenMax in a file
  int tick_ms = 20;       // divides the horizon
  int tau_index = 3;      // of kRateTausS: the moving average that the network corrects
  double train_mean = 0;  // arrivals in 100 ms
  FeatureMask mask;
  std::vector<float> parameters;  // as NetworkShape says
  // More lines of the file's metadata, for people: training span, losses, digest of the log.
  std::map<std::string, std::string> notes;
};

// A tick is 10, 20, 25, 50 or 100 ms: a whole number of them makes a horizon.
bool IsTickMs(int64_t tick_ms);

// The file's bytes: the same model, the same bytes.
std::vector<std::byte> EncodePredictor(const TrainedPredictor& model);

// Refuses whatever EncodePredictor wouldn't write, numbers that aren't finite too; errors name the
// tensor or the key, and `name`.
Result<TrainedPredictor> DecodePredictor(std::span<const std::byte> bytes, const std::string& name);

Result<TrainedPredictor> ReadPredictor(const std::string& path);
// By a temporary file beside it and a rename.
Status WritePredictor(const TrainedPredictor& model, const std::string& path);

}  // namespace remontoir
