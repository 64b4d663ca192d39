// Series, split, moving average, then a linear model and the network on top of it.
#include "predictor/train_predictor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace remontoir {
namespace {

Status CheckOptions(const TrainPredictorOptions& options) {
  if (!IsTickMs(options.tick_ms)) {
    return InvalidArgument("--tick-ms wants 10, 20, 25, 50 or 100");
  }
  if (options.hidden < 1 || options.hidden > kHiddenMax) {
    return InvalidArgument("--hidden wants 1 to " + std::to_string(kHiddenMax));
  }
  if (options.epochs < 1 || options.epochs > 1000) {
    return InvalidArgument("--epochs wants 1 to 1000");
  }
  return Status::Ok();
}

double MeanTarget(const TickSeries& series, int64_t end) {
  double sum = 0;
  for (int64_t tick = 0; tick < end; ++tick) sum += series.targets[static_cast<size_t>(tick)];
  return sum / static_cast<double>(end);
}

std::string LossText(double loss) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.5f", loss);
  return text.data();
}

// "EWMA-NB" is loss_ewma_nb in a file.
std::string NoteKey(const std::string& name) {
  std::string key = "loss_";
  for (const char c : name) {
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    key += letter ? static_cast<char>(c | 0x20) : '_';
  }
  return key;
}

std::string Percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %%", 100 * ratio);
  return text.data();
}

const ForecastScore* Find(const std::vector<ForecastScore>& scores, std::string_view name) {
  const auto found = std::ranges::find(scores, name, &ForecastScore::name);
  return found == scores.end() ? nullptr : &*found;
}

constexpr double kTie = 0.0005;  // the spread of seeds is larger

// "X beats Y by 3 % (..)", "X LOSES to Y by ..." or "X ties with Y".
std::string Compare(const ForecastScore& mine, const ForecastScore& other) {
  const double change = mine.loss / other.loss - 1;
  const std::string losses = " (" + LossText(mine.loss) + " against " + LossText(other.loss) + ")";
  if (std::fabs(change) < kTie) return mine.name + " ties with " + other.name + losses;
  if (change < 0) return mine.name + " beats " + other.name + " by " + Percent(-change) + losses;
  return mine.name + " LOSES to " + other.name + " by " + Percent(change) + losses;
}

}  // namespace

void AddScore(const ForecastScore& score, TrainingReport& report) {
  report.model.notes[NoteKey(score.name)] = LossText(score.loss);
  report.scores.push_back(score);
}

Result<TrainingReport> TrainPredictor(const ArrivalLog& log, const TrainPredictorOptions& options,
                                      const TrainingProgress& progress) {
  REM_RETURN_IF_ERROR(CheckOptions(options));
  TrainingReport report;
  REM_ASSIGN_OR_RETURN(report.series, MakeTickSeries(log, options.tick_ms, MaskOf(log)));
  const TickSeries& series = report.series;
  report.split = SplitTicks(series);
  const TickSplit& split = report.split;
  if (split.train_end < kTrainTicksMin) {
    return InvalidArgument("the log is too short: it makes " + std::to_string(split.train_end) +
                           " ticks to train on, of " + std::to_string(kTrainTicksMin) +
                           " at least");
  }
  TrainedPredictor& model = report.model;
  model.tick_ms = options.tick_ms;
  model.mask = series.mask;
  model.train_mean = MeanTarget(series, split.train_end);
  model.tau_index = BestTauIndex(series, model.train_mean, split.train_end, split.validation_end);
  const BaseRule base{model.tau_index, model.train_mean};

  const auto train = [&](int hidden, const std::string& name) {
    return TrainNetwork(series, split, base, {hidden, options.epochs, options.seed},
                        [&](int epoch, double loss) { progress(name, epoch, loss); });
  };
  const int64_t held_out = split.validation_end;
  AddScore(ScoreConstant(series, model.train_mean, held_out), report);
  AddScore(ScoreAverage(series, base, held_out), report);
  const double log_size = BestLogSize(series, base, split.train_end);
  AddScore(ScoreAverageNb(series, base, log_size, held_out), report);
  AddScore(ScorePredictor(log, series, nullptr, held_out, nullptr), report);
  AddScore(ScoreNetwork(series, base, train(0, "GLM"), "GLM-NB", held_out), report);
  TrainedNetwork network = train(options.hidden, "LSTM");
  AddScore(ScoreNetwork(series, base, network, "LSTM-NB", held_out), report);

  report.best_epoch = network.best_epoch;
  model.shape = network.shape;
  model.parameters = std::move(network.parameters);
  model.notes["train_from_us"] = std::to_string(log.arrivals.front().t_us);
  model.notes["train_ticks"] = std::to_string(split.train_end);
  model.notes["held_out_from_tick"] = std::to_string(held_out);
  model.notes["seed"] = std::to_string(options.seed);
  model.notes["epochs"] = std::to_string(options.epochs);
  model.notes["best_epoch"] = std::to_string(network.best_epoch);
  if (!options.log_digest.empty()) model.notes["log_digest"] = options.log_digest;
  return report;
}

std::vector<std::string> Verdicts(const std::vector<ForecastScore>& scores) {
  std::vector<std::string> lines;
  const ForecastScore* lstm = Find(scores, "LSTM-NB");
  const ForecastScore* average = Find(scores, "EWMA-Poisson");
  const ForecastScore* mixed = Find(scores, "EWMA-mixed");
  if (lstm == nullptr || average == nullptr) return lines;
  for (const char* other : {"EWMA-Poisson", "EWMA-NB", "EWMA-mixed", "GLM-NB"}) {
    if (const ForecastScore* score = Find(scores, other)) lines.push_back(Compare(*lstm, *score));
  }
  if (const ForecastScore* mixture = Find(scores, "mixture")) {
    lines.push_back(Compare(*mixture, *average));
  }
  if (lstm->loss >= average->loss || (mixed != nullptr && lstm->loss >= mixed->loss)) {
    lines.emplace_back(
        "On this log the network is worth nothing: take dynamic_batching.predictor_model: ewma.");
  }
  return lines;
}

}  // namespace remontoir
