// Histories grow by each other's end, so that each token of the longest is computed once.
#include "apps/bench_kv_history.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "apps/bench_statistics.h"
#include "base/random.h"
#include "engine/loaded_engine.h"
#include "model/model_info.h"

namespace remontoir {
namespace {

// Among them the ends of the default classes, and one token on each side of one.
constexpr int32_t kHistories[] = {0,    256,  1024, 2047, 2048, 2049, 3072, 4096,
                                  5120, 6144, 7168, 8000};
constexpr int32_t kFresh[] = {32, 128};

class HistoryBench {
 public:
  HistoryBench(Engine& engine, int32_t vocabulary) : engine_(engine), vocabulary_(vocabulary) {}

  // Leaves the first `history` tokens in the prefix cache.
  void Prime(int32_t history) {
    if (history > 0) (void)FirstToken(history, 1, 0);
  }

  struct Measured {
    double ms;
    int32_t cached;
  };

  // `fresh` tokens that nobody else has after the history.
  Measured FirstToken(int32_t history, int32_t fresh, uint64_t variant) {
    Request request;
    for (int32_t i = 0; i < history; ++i) request.prompt.push_back(Token(0, i));
    for (int32_t i = 0; i < fresh; ++i) request.prompt.push_back(Token(1 + variant, history + i));
    request.max_tokens = 1;
    const auto generation = std::make_shared<Generation>(std::move(request), &notifier());
    const auto begin = std::chrono::steady_clock::now();
    const Status status = engine_.Submit(generation);
    REM_CHECK(status.ok(), status.message());
    TokenEvent event;
    while (!generation->TryPop(event)) notifier().Wait(-1);
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - begin;
    return {passed.count(), generation->cached_tokens()};
  }

 private:
  static Notifier& notifier() {
    static Notifier outlives_every_engine;
    return outlives_every_engine;
  }

  TokenId Token(uint64_t text, int32_t position) const {
    const uint64_t bits = CounterRandom(text, 9).Bits(static_cast<uint64_t>(position));
    return TokenId(static_cast<int32_t>(bits % static_cast<uint64_t>(vocabulary_)));
  }

  Engine& engine_;
  const int32_t vocabulary_;
};

// Solves the symmetric system a x = b of three unknowns by elimination.
std::array<double, 3> Solve(std::array<std::array<double, 4>, 3> rows) {
  for (size_t i = 0; i < 3; ++i) {
    for (size_t other = i + 1; other < 3; ++other) {
      const double factor = rows[other][i] / rows[i][i];
      for (size_t k = i; k < 4; ++k) rows[other][k] -= factor * rows[i][k];
    }
  }
  std::array<double, 3> x = {};
  for (size_t i = 3; i-- > 0;) {
    double rest = rows[i][3];
    for (size_t k = i + 1; k < 3; ++k) rest -= rows[i][k] * x[k];
    x[i] = rest / rows[i][i];
  }
  return x;
}

std::array<double, 3> TermsOf(const HistoryRow& row) {
  return {1, static_cast<double>(row.fresh), row.fresh * row.context()};
}

}  // namespace

void FitHistory(HistoryCurve* curve) {
  std::array<std::array<double, 4>, 3> normal = {};
  for (const HistoryRow& row : curve->rows) {
    const std::array<double, 3> terms = TermsOf(row);
    const double weight = 1 / (row.first_token_ms * row.first_token_ms);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 3; ++k) normal[i][k] += weight * terms[i] * terms[k];
      normal[i][3] += weight * terms[i] * row.first_token_ms;
    }
  }
  curve->fit_ms = Solve(normal);
  for (HistoryRow& row : curve->rows) {
    const std::array<double, 3> terms = TermsOf(row);
    row.fitted_ms = 0;
    for (size_t i = 0; i < 3; ++i) row.fitted_ms += curve->fit_ms[i] * terms[i];
  }
}

Result<HistoryCurve> MeasureHistory(const std::string& file, int32_t threads, int32_t rounds) {
  static const SystemClock clock;
  REM_ASSIGN_OR_RETURN(ModelFile opened, ModelFile::Open(file));
  LoadEngineOptions options;
  options.backend.threads = threads;
  options.engine.sequences_max = 1;
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(opened));
  const int32_t context = info.shape.context_trained;
  // Room for the history and for every measurement's own end, so that nothing is evicted.
  options.kv_memory_bytes = 3 * int64_t{context} *
                            MakeKvLayout(info.shape, options.kv_type).token_bytes();
  REM_ASSIGN_OR_RETURN(LoadedEngine loaded, OpenEngine(std::move(opened), options, clock, nullptr));
  HistoryBench bench(*loaded.engine, info.shape.vocabulary_size);

  HistoryCurve curve;
  std::vector<std::vector<double>> times;
  for (const int32_t history : kHistories) {
    if (history + kFresh[1] > context) continue;
    std::fprintf(stderr, "\r\033[Kcomputing a history of %d tokens", history);
    bench.Prime(history);
    for (const int32_t fresh : kFresh) curve.rows.push_back({.history = history, .fresh = fresh});
  }
  times.resize(curve.rows.size());
  for (int32_t round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\r\033[Kround %d/%d", round + 1, rounds);
    for (size_t i = 0; i < curve.rows.size(); ++i) {
      HistoryRow& row = curve.rows[i];
      const auto variant = 1 + static_cast<uint64_t>(round) * curve.rows.size() + i;
      const auto measured = bench.FirstToken(row.history, row.fresh, variant);
      times[i].push_back(measured.ms);
      row.cached = measured.cached;
    }
  }
  std::fprintf(stderr, "\r\033[K");
  for (size_t i = 0; i < curve.rows.size(); ++i) {
    const Spread spread = SpreadOf(times[i]);
    curve.rows[i].first_token_ms = spread.median;
    curve.rows[i].low_ms = spread.low;
    curve.rows[i].high_ms = spread.high;
  }
  FitHistory(&curve);
  return curve;
}

}  // namespace remontoir
