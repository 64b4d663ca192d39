// The log's digest, the training, the table.
#include "apps/train_predictor_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>

#include "base/clock.h"
#include "hub/sha256.h"
#include "predictor/train_predictor.h"

namespace remontoir {
namespace {

constexpr double kGradientErrorMax = 5e-3;
constexpr int kGradientSamples = 300;

Result<std::string> DigestOf(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return NotFound(path + ": can't be opened");
  Result<std::string> digest = Sha256OfFile(descriptor, path, [](int64_t) { return true; });
  ::close(descriptor);
  if (!digest.ok()) return digest.status();
  return "sha256:" + *digest;
}

void PrintTable(const TrainingReport& report, std::FILE* out) {
  const TickSplit& split = report.split;
  std::fprintf(out,
               "ticks of %d ms: %" PRId64 " to train, %" PRId64 " to choose, %" PRId64
               " held out\nmoving average over %g s, %zu parameters, epoch %d was best\n\n",
               report.series.tick_ms, split.train_end, split.validation_end - split.train_end,
               report.series.size() - split.validation_end,
               kRateTausS[static_cast<size_t>(report.model.tau_index)],
               report.model.shape.parameter_count(), report.best_epoch);
  const double reference = report.scores.at(1).loss;
  std::fprintf(out, "%-18s %10s %9s %8s %10s\n", "held out", "nats/tick", "vs EWMA", "PIT-KS",
               "P(y<=q95)");
  for (const ForecastScore& score : report.scores) {
    std::fprintf(out, "%-18s %10.5f %+8.2f%% %8.4f %10.4f\n", score.name.c_str(), score.loss,
                 100 * (score.loss / reference - 1), score.pit_ks, score.covered);
  }
  std::fprintf(out, "\n");
  for (const std::string& line : Verdicts(report.scores)) std::fprintf(out, "%s\n", line.c_str());
}

Status CheckOwnGradient(const TrainingReport& report, const TrainOptions& options, std::FILE* out) {
  const BaseRule base{report.model.tau_index, report.model.train_mean};
  const double error =
      CheckGradient(report.series, base, options.hidden, kGradientSamples, options.seed);
  std::fprintf(out, "gradient against central differences: worst relative error %.1e\n", error);
  if (error <= kGradientErrorMax) return Status::Ok();
  return FailedPrecondition("the gradient is wrong");
}

}  // namespace

Status TrainPredictorCommand(const TrainOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const ArrivalLog log, ReadArrivalLog(options.log));
  TrainPredictorOptions training;
  training.tick_ms = options.tick_ms;
  training.hidden = options.hidden;
  training.epochs = options.epochs;
  training.seed = options.seed;
  REM_ASSIGN_OR_RETURN(training.log_digest, DigestOf(options.log));
  std::fprintf(out, "%s: %zu arrivals in %.1f min\n", options.log.c_str(), log.arrivals.size(),
               static_cast<double>(log.SpanUs()) / 60e6);
  const TimePoint begin = clock.Now();
  REM_ASSIGN_OR_RETURN(
      TrainingReport report,
      TrainPredictor(log, training, [out](const std::string& what, int epoch, double loss) {
        std::fprintf(out, "%-4s epoch %d: validation %.5f\n", what.c_str(), epoch, loss);
        std::fflush(out);
      }));
  const TimePoint trained = clock.Now();
  int64_t ticks = 0;
  AddScore(ScorePredictor(log, report.series, &report.model, report.split.validation_end, &ticks),
           report);
  const TimePoint scored = clock.Now();
  PrintTable(report, out);
  std::fprintf(out, "training took %.1f s; a step of the whole predictor %.2f us on average\n",
               static_cast<double>(ElapsedUs(begin, trained)) * 1e-6,
               static_cast<double>(ElapsedUs(trained, scored)) / static_cast<double>(ticks));
  if (options.selftest) REM_RETURN_IF_ERROR(CheckOwnGradient(report, options, out));
  if (options.out.empty()) return Status::Ok();
  REM_RETURN_IF_ERROR(WritePredictor(report.model, options.out));
  std::fprintf(out, "wrote %s\n", options.out.c_str());
  return Status::Ok();
}

}  // namespace remontoir
