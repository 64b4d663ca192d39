// `remontoir train-predictor`: a forecaster of arrivals from a log of them.
#pragma once

#include <cstdio>

#include "apps/train_options.h"
#include "base/status.h"

namespace remontoir {

// Trains, prints the table of all forecasters on the held-out part and where the network loses;
// writes the file if one is wanted. With selftest, an error when the gradient is wrong.
Status TrainPredictorCommand(const TrainOptions& options, std::FILE* out);

}  // namespace remontoir
