// From the configuration's words to the engine's options, and the parts of a model in one place.
#include "apps/local_model.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "apps/progress_bar.h"
#include "apps/pull.h"
#include "apps/vocabulary_size.h"
#include "base/log.h"
#include "hub/settings.h"
#include "scheduler/cost_file.h"

namespace remontoir {
namespace {

constexpr int64_t kRoundsWorthKeeping = 64;

DType KvDType(KvType type) {
  switch (type) {
    case KvType::kF32: return DType::kF32;
    case KvType::kBF16: return DType::kBF16;
    case KvType::kQ8_0: return DType::kQ8_0;
    case KvType::kF16: break;
  }
  return DType::kF16;
}

SchedulingPolicy PolicyOf(const DynamicBatchingConfig& config) {
  if (!config.enabled) return SchedulingPolicy::kImmediate;
  switch (config.policy) {
    case BatchingPolicy::kAdaptive: return SchedulingPolicy::kAdaptive;
    case BatchingPolicy::kFixed: return SchedulingPolicy::kFixed;
    case BatchingPolicy::kLegacy: return SchedulingPolicy::kLegacy;
    case BatchingPolicy::kImmediate: break;
  }
  return SchedulingPolicy::kImmediate;
}

int64_t MicrosecondsOf(double ms) { return std::llround(ms * 1000); }

SchedulerOptions SchedulerOptionsOf(const DynamicBatchingConfig& config) {
  SchedulerOptions options;
  options.policy = PolicyOf(config);
  options.window_us_min = MicrosecondsOf(config.min_window_ms);
  options.window_us_max = MicrosecondsOf(config.max_window_ms);
  return options;
}

ForecastModel ForecastOf(PredictorModel model) {
  switch (model) {
    case PredictorModel::kLstmV2: return ForecastModel::kLstmV2;
    case PredictorModel::kEwma: return ForecastModel::kEwma;
    case PredictorModel::kNone: break;
  }
  return ForecastModel::kNone;
}

// Beside its packed weights: what rounds of this model cost on this back end. Empty: nowhere.
std::string CostPath(const RepackCacheOptions& cache, const std::string& model_name,
                     ModelRunner& runner) {
  if (cache.folder.empty()) return "";
  std::string name = model_name + "-" + std::to_string(runner.backend().weights_bytes()) + "-" +
                     runner.backend().Describe();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  }
  return cache.folder + "/" + name + ".costs.json";
}

bool IsNumber(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "-00001-of-00003"
bool IsPartNumber(std::string_view text) {
  return text[0] == '-' && IsNumber(text.substr(1, 5)) && text.substr(6, 4) == "-of-" &&
         IsNumber(text.substr(10));
}

}  // namespace

SparseAttentionOptions SparseOptionsOf(const AttentionConfig& config) {
  SparseAttentionOptions options;
  if (config.mode == AttentionMode::kExact || config.epsilon == 0) return options;
  options.engage_at = config.mode == AttentionMode::kAuto ? kEngageAtAuto : kEngageAtCustomSparse;
  options.epsilon = static_cast<float>(config.epsilon);
  options.block_keys = static_cast<int32_t>(config.block_keys);
  if (config.residual_max.has_value()) {
    options.residual_max = static_cast<float>(*config.residual_max);
  }
  return options;
}

LoadEngineOptions EngineOptionsOf(const EngineChoice& choice) {
  const Config& config = choice.config;
  LoadEngineOptions options;
  options.backend.threads = static_cast<int32_t>(config.engine.threads.value_or(0));
  options.backend.compute =
      choice.compute == ComputeChoice::kF32 ? ComputeMode::kF32 : ComputeMode::kAuto;
  options.backend.experts_mapped = config.engine.experts == ExpertWeights::kMapped;
  options.engine.sequences_max = static_cast<int32_t>(config.engine.sequences_max);
  options.engine.queue_max = static_cast<int32_t>(config.engine.queue_max);
  options.engine.round_tokens_max = static_cast<int32_t>(config.engine.round_tokens_max);
  options.engine.reserve_tokens_default =
      static_cast<int32_t>(config.kv_cache.reserve_tokens_default);
  options.engine.scheduler = SchedulerOptionsOf(config.dynamic_batching);
  options.forecast = ForecastOf(config.dynamic_batching.predictor_model);
  options.predictor_file = config.dynamic_batching.predictor_file;
  options.engine.dynamic = config.kv_cache.strategy == KvStrategy::kDynamic;
  options.engine.bucket_capacity = static_cast<int32_t>(config.kv_cache.bucket_capacity);
  options.buckets_wanted = config.kv_cache.prealloc_buckets;
  options.context_max = static_cast<int32_t>(config.model.context.value_or(0));
  options.rope = {config.model.rope_freq_scale, config.model.rope_freq_base_scale};
  options.compat =
      config.model.compat == ModelCompat::kLlamaCpp ? Compat::kLlamaCpp : Compat::kAuthors;
  options.kv_type = KvDType(config.kv_cache.type);
  options.kv_memory_bytes = config.kv_cache.memory.value_or(0);
  options.dynamic_memory_bytes = config.kv_cache.dynamic_memory_max.value_or(0);
  options.lock_memory = config.kv_cache.lock;
  options.sparse = SparseOptionsOf(config.attention);
  return options;
}

Result<std::unique_ptr<LocalModel>> OpenLocalModel(const EngineChoice& choice, const Clock& clock) {
  REM_ASSIGN_OR_RETURN(const std::string path, LocateModel(choice.config.model.file, clock));
  const TimePoint begin = clock.Now();
  REM_ASSIGN_OR_RETURN(ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::FromModelFile(file));
  std::optional<ChatTemplate> chat_template;
  if (HasChatTemplate(tokenizer.vocabulary())) {
    REM_ASSIGN_OR_RETURN(chat_template, ChatTemplate::For(tokenizer.vocabulary()));
  }
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  REM_RETURN_IF_ERROR(CheckVocabularySize(info.shape, tokenizer.vocabulary()));
  LoadEngineOptions options = EngineOptionsOf(choice);
  options.backend.repack_cache = RepackCacheOf(choice.config.model);
  options.costs_of = [&](ModelRunner& runner) -> std::optional<CostModel> {
    const std::string costs_path =
        CostPath(options.backend.repack_cache, ModelNameOf(path), runner);
    const Result<CostModel> costs = ReadCostFile(costs_path);
    return costs.ok() ? std::optional(*costs) : std::nullopt;
  };
  LoadedEngine loaded;
  {
    ProgressBar bar("loading", clock, TerminalWriter());
    REM_ASSIGN_OR_RETURN(loaded,
                         OpenEngine(std::move(file), options, clock,
                                    [&](int64_t done, int64_t total) { bar.Update(done, total); }));
  }
  LogNotes(loaded.model.runner->backend().weights_report());
  const EnginePlan& plan = loaded.model.plan;
  for (const std::string& note : plan.notes) LogWarning(note);
  for (const std::string& note : plan.kv_memory.notes) LogWarning(note);
  if (!loaded.predictor_warning.ok()) LogWarning(loaded.predictor_warning.message());
  const double seconds = static_cast<double>(ElapsedUs(begin, clock.Now())) / 1e6;
  return std::make_unique<LocalModel>(
      LocalModel{ModelNameOf(path), std::move(tokenizer), std::move(chat_template), seconds,
                 CostPath(options.backend.repack_cache, ModelNameOf(path), *loaded.model.runner),
                 std::move(loaded)});
}

void KeepCosts(LocalModel& model) {
  if (model.costs_path.empty() || model.engine().stats().rounds < kRoundsWorthKeeping) return;
  const Status kept = WriteCostFile(model.engine().costs(), model.costs_path);
  if (!kept.ok()) LogWarning("the costs of rounds aren't kept: " + kept.message());
}

RepackCacheOptions RepackCacheOf(const ModelConfig& config) {
  RepackCacheOptions options;
  options.bytes_max = config.repack_cache_bytes_max;
  if (config.repack_cache == "off") return options;
  if (config.repack_cache != "auto") {
    options.folder = config.repack_cache;
    return options;
  }
  const Result<std::string> home =
      ReadHome([](const char* name) -> const char* { return std::getenv(name); });
  if (home.ok()) options.folder = *home + "/repacked";
  return options;
}

ServedModel Served(LocalModel& model, const Config& config) {
  ServedModel served;
  served.tokenizer = &model.tokenizer;
  served.chat_template = model.chat_template ? &*model.chat_template : nullptr;
  served.engine = &model.engine();
  served.plan = &model.loaded.model.plan;
  served.names.primary = model.name;
  served.names.aliases = config.model.alias;
  served.names.any = config.server.any_model_name;
  served.engine_queue_max = static_cast<int32_t>(config.engine.queue_max);
  served.schedule.policy = PolicyOf(config.dynamic_batching);
  served.schedule.first_token_us_max = MicrosecondsOf(config.engine.ttft_slo_ms.value_or(0));
  served.schedule.single_when_not_streaming = config.engine.single_when_not_streaming;
  served.trust_content_specials = config.server.trust_content_specials;
  served.path = config.model.file;
  served.backend = model.loaded.model.runner->backend().Describe();
  return served;
}

std::string Describe(const LocalModel& model) {
  const EnginePlan& plan = model.loaded.model.plan;
  return model.name + ": context " + std::to_string(plan.context_max) + ", " +
         std::to_string(plan.sequences_max) + " sequences, KV room for " +
         std::to_string(RoomTokens(plan)) + " tokens in " + std::string(Info(plan.kv_type).name) +
         ", " + model.loaded.model.runner->backend().Describe();
}

std::string DescribeRoom(const EnginePlan& plan) {
  constexpr int64_t kHugePageBytes = int64_t{2} << 20;
  if (plan.dynamic) {
    return "KV room: dynamic, at most " + GiB(plan.memory.dynamic_bytes) + " from the system";
  }
  const MemoryState& arena = plan.kv_memory.arena;
  return "KV room: " + GiB(arena.bytes) + ", " + std::string(Name(arena.state)) + ", " +
         std::to_string(arena.huge_bytes / kHugePageBytes) + " huge pages";
}

std::string DescribeLoading(const LocalModel& model) {
  const WeightsReport& report = model.loaded.model.runner->backend().weights_report();
  char text[160];
  std::snprintf(text, sizeof text, "loaded in %.2f s, of them %.2f s for %lld MiB of weights %s",
                model.load_seconds, report.seconds, static_cast<long long>(report.bytes >> 20),
                report.from_cache ? "from the repack cache"
                : report.stored   ? "repacked and stored for the next start"
                                  : "repacked");
  return text;
}

void LogNotes(const WeightsReport& report) {
  for (const std::string& note : report.notes) LogWarning(note);
}

std::string ModelNameOf(const std::string& path) {
  constexpr std::string_view kSuffix = ".gguf";
  constexpr size_t kPartLength = std::string_view("-00001-of-00003").size();
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) {
    name.resize(name.size() - kSuffix.size());
  }
  if (name.size() > kPartLength &&
      IsPartNumber(std::string_view(name).substr(name.size() - kPartLength))) {
    name.resize(name.size() - kPartLength);
  }
  return name;
}

}  // namespace remontoir
