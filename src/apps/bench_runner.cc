// KV pages are filled once; what they hold doesn't change how long a round takes.
#include "apps/bench_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backend/expert_load.h"
#include "base/random.h"
#include "kv/kv_pool.h"

namespace remontoir {
namespace {

constexpr int32_t kFillTokens = 512;

// Since the start.
ExpertWork ExpertWorkOf(const ExpertLoad* load) {
  if (load == nullptr) return {};
  return {.layers = 0,
          .read_share = static_cast<double>(load->experts_read.value()) / load->experts(),
          .rows_wanted = load->rows_wanted.value(),
          .rows_multiplied = load->rows_multiplied.value()};
}

int32_t KeysOf(const BenchRow& row) { return row.tokens + row.steps; }
int32_t PagesOf(const BenchRow& row) { return row.sequences * PagesFor(KeysOf(row)); }

}  // namespace

ExpertWork& ExpertWork::operator+=(const ExpertWork& other) {
  layers += other.layers;
  read_share += other.read_share;
  rows_wanted += other.rows_wanted;
  rows_multiplied += other.rows_multiplied;
  return *this;
}

std::string BenchRow::Name() const {
  switch (kind) {
    case Kind::kPrompt: return "prompt_" + std::to_string(tokens);
    case Kind::kDecode: return "decode_" + std::to_string(tokens);
    case Kind::kBatch: return "batch_" + std::to_string(sequences);
  }
  return "";
}

Result<std::unique_ptr<BenchRunner>> BenchRunner::Open(const std::string& file,
                                                       LoadEngineOptions options,
                                                       const std::vector<BenchRow>& rows) {
  REM_ASSIGN_OR_RETURN(ModelFile opened, ModelFile::Open(file));
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(opened));
  const bool float32 = options.backend.compute == ComputeMode::kF32;
  if (float32) options.kv_type = DType::kF32;
  options.context_max = kFillTokens;
  options.engine.sequences_max = 1;
  int32_t pages = PagesFor(kFillTokens);
  for (const BenchRow& row : rows) {
    options.context_max = std::max(options.context_max, KeysOf(row));
    options.engine.sequences_max = std::max(options.engine.sequences_max, row.sequences);
    pages = std::max(pages, PagesOf(row));
  }
  options.kv_memory_bytes = MakeKvLayout(info.shape, options.kv_type).page_bytes() * pages;
  const ModelWork work = DescribeWork(info, options.kv_type, float32);
  REM_ASSIGN_OR_RETURN(LoadedModel model,
                       OpenModel(std::move(opened), options, [](int64_t, int64_t) {}));
  auto runner = std::unique_ptr<BenchRunner>(new BenchRunner(std::move(model), work));
  runner->FillPages();
  return runner;
}

BenchRunner::BenchRunner(LoadedModel model, ModelWork work)
    : model_(std::move(model)), work_(std::move(work)) {
  const CounterRandom random(1, 0);
  tokens_.resize(static_cast<size_t>(model_.runner->limits().context_max));
  const auto vocabulary = static_cast<uint64_t>(model_.runner->shape().vocabulary_size);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    tokens_[i] = static_cast<int32_t>(random.Bits(i) % vocabulary);
  }
  for (int32_t page = 0; page < model_.plan.memory.kv_page_count; ++page) {
    pages_.push_back(KvPageId(page));
  }
}

// With short sequences: deep ones would take minutes.
void BenchRunner::FillPages() {
  const std::span<const KvPageId> pages = pages_;
  const auto chunk = static_cast<size_t>(PagesFor(kFillTokens));
  for (size_t first = 0; first < pages.size(); first += chunk) {
    const size_t count = std::min(chunk, pages.size() - first);
    const size_t tokens = count * kKvPageTokens;
    const BatchSequence sequence = {.tokens = std::span(tokens_).first(tokens),
                                    .first_position = 0,
                                    .pages = pages.subspan(first, count),
                                    .logits_begin = static_cast<int32_t>(tokens)};
    model_.runner->Run({&sequence, 1});
  }
}

Result<BenchSample> BenchRunner::Measure(const BenchRow& row) {
  if (row.tokens < 0 || row.sequences < 1 || row.steps < 0) {
    return InvalidArgument(row.Name() + ": a negative count");
  }
  if (KeysOf(row) > model_.runner->limits().context_max ||
      row.sequences > model_.runner->limits().sequences_max ||
      PagesOf(row) > static_cast<int32_t>(pages_.size())) {
    return InvalidArgument(row.Name() + " needs more room than was taken at start");
  }
  return row.kind == BenchRow::Kind::kPrompt ? MeasurePrompt(row) : MeasureSteps(row);
}

void BenchRunner::RunRound(const std::vector<BatchSequence>& batch, BenchSample* sample) {
  const ExpertLoad* load = model_.runner->expert_load();
  const ExpertWork before = ExpertWorkOf(load);
  const auto start = std::chrono::steady_clock::now();
  model_.runner->Run(batch);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  sample->seconds += seconds.count();
  sample->step_seconds.push_back(seconds.count());
  std::vector<SequenceRows> rows;
  for (const BatchSequence& sequence : batch) {
    const auto count = static_cast<int32_t>(sequence.tokens.size());
    sample->tokens += count;
    sample->logit_rows += count - sequence.logits_begin;
    rows.push_back({sequence.first_position, count, count - sequence.logits_begin});
  }
  ExpertWork experts = ExpertWorkOf(load);
  experts.layers = load == nullptr ? 0 : load->layers();
  experts.read_share -= before.read_share;
  experts.rows_wanted -= before.rows_wanted;
  experts.rows_multiplied -= before.rows_multiplied;
  sample->experts += experts;
  sample->work += load == nullptr ? WorkOfRound(work_, rows)
                                  : WorkOfRound(work_, rows, experts.mean_read_share());
}

BenchSample BenchRunner::MeasurePrompt(const BenchRow& row) {
  BenchSample sample;
  const int32_t rows_max = model_.runner->limits().rows_max;
  std::vector<BatchSequence> batch(1);
  batch[0].pages = pages_;
  for (int32_t first = 0; first < row.tokens; first += rows_max) {
    const int32_t rows = std::min(rows_max, row.tokens - first);
    batch[0].tokens =
        std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
    batch[0].first_position = first;
    batch[0].logits_begin = first + rows == row.tokens ? rows - 1 : rows;
    RunRound(batch, &sample);
  }
  return sample;
}

BenchSample BenchRunner::MeasureSteps(const BenchRow& row) {
  const auto pages = static_cast<size_t>(PagesFor(KeysOf(row)));
  std::vector<BatchSequence> batch(static_cast<size_t>(row.sequences));
  for (size_t s = 0; s < batch.size(); ++s) {
    batch[s].pages = std::span(pages_).subspan(s * pages, pages);
  }
  BenchSample sample;
  for (int32_t step = 0; step < row.steps; ++step) {
    const int32_t position = row.tokens + step;
    for (BatchSequence& sequence : batch) {
      sequence.first_position = position;
      sequence.tokens = std::span(tokens_).subspan(static_cast<size_t>(position), 1);
    }
    RunRound(batch, &sample);
  }
  return sample;
}

}  // namespace remontoir
