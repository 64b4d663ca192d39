// Puts the pieces together: stream, machine, policies, report.
#include "simulation/simulate.h"

#include <fstream>
#include <utility>

#include "scheduler/cost_file.h"
#include "simulation/acceptance.h"
#include "simulation/experiment.h"
#include "simulation/plot.h"
#include "simulation/report.h"
#include "simulation/stream_file.h"

namespace remontoir {
namespace {

Result<StreamRecipe> RecipeOf(const std::string& stream) {
  if (stream.ends_with(".yaml") || stream.ends_with(".yml")) return LoadStreamFile(stream);
  return StreamNamed(stream);
}

Result<std::optional<ArrivalPredictor>> PredictorOf(const std::string& predictor) {
  if (predictor == "none") return std::optional<ArrivalPredictor>();
  ArrivalPredictorOptions options;
  options.model = predictor == "ewma" ? ForecastModel::kEwma : ForecastModel::kLstmV2;
  OpenedPredictor opened = OpenArrivalPredictor(TimePoint{}, options, predictor);
  // A server would go on with the averages; who simulates wants the file that was named.
  REM_RETURN_IF_ERROR(opened.warning);
  return std::optional<ArrivalPredictor>(std::move(opened.predictor));
}

Status WritePlot(const std::string& path, const std::string& title,
                 const std::vector<PolicyRuns>& policies) {
  std::vector<PlotPanel> panels = {{"time to first token, ms", {}},
                                   {"time between tokens, ms", {}}};
  for (const PolicyRuns& runs : policies) {
    panels[0].series.push_back({std::string(Name(runs.policy)), runs.ttft_ms});
    panels[1].series.push_back({std::string(Name(runs.policy)), runs.itl_ms});
  }
  std::ofstream file(path, std::ios::binary);
  file << DistributionPlot(title, panels);
  file.close();
  if (!file) return IoError(path + ": can't be written");
  return Status::Ok();
}

Status SimulateStream(const SimulateOptions& options, std::FILE* out) {
  REM_ASSIGN_OR_RETURN(StreamRecipe recipe, RecipeOf(options.stream));
  if (!options.costs.empty()) {
    REM_ASSIGN_OR_RETURN(recipe.machine.costs, ReadCostFile(options.costs));
  }
  REM_ASSIGN_OR_RETURN(Experiment experiment, MakeExperiment(std::move(recipe), options.trace));
  experiment.from = options.from;
  experiment.scheduler = options.scheduler;
  REM_ASSIGN_OR_RETURN(experiment.predictor, PredictorOf(options.predictor));
  experiment.clients = {
      .count = options.clients, .think_s = options.think_s, .seconds = options.seconds};
  experiment.first_token_us_max = static_cast<int64_t>(options.ttft_slo_ms * 1000);
  std::vector<PolicyRuns> policies;
  for (const SchedulingPolicy policy : options.policies) {
    REM_ASSIGN_OR_RETURN(PolicyRuns runs,
                         RunPolicy(experiment, policy, options.seed, options.seeds));
    policies.push_back(std::move(runs));
  }
  const ReportHeader header = {.stream = experiment.recipe.name,
                               .seed_first = options.seed,
                               .seeds = options.seeds,
                               .clients = experiment.clients,
                               .scheduler = options.scheduler,
                               .machine = experiment.recipe.machine};
  const std::string report =
      options.json ? ReportJson(header, policies) : ReportTables(header, policies);
  std::fputs(report.c_str(), out);
  if (options.plot.empty()) return Status::Ok();
  return WritePlot(options.plot, header.stream, policies);
}

}  // namespace

Status Simulate(const SimulateOptions& options, std::FILE* out) {
  if (!options.acceptance) return SimulateStream(options, out);
  REM_ASSIGN_OR_RETURN(std::optional<ArrivalPredictor> predictor, PredictorOf(options.predictor));
  REM_ASSIGN_OR_RETURN(const std::vector<AcceptanceLine> lines,
                       RunAcceptance({.trace = options.trace,
                                      .costs = options.costs,
                                      .seed_first = options.seed,
                                      .seeds = options.seeds > 1 ? options.seeds : 8,
                                      .scheduler = options.scheduler,
                                      .predictor = std::move(predictor)}));
  std::fputs(options.json ? AcceptanceJson(lines).c_str() : AcceptanceTable(lines).c_str(), out);
  return Status::Ok();
}

}  // namespace remontoir
