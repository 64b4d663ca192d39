// Times rounds of a loaded model, driven directly: no scheduler, no sampling, no server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench_work.h"
#include "engine/loaded_engine.h"

namespace remontoir {

// One line of a bench.
struct BenchRow {
  enum class Kind : uint8_t { kPrompt, kDecode, kBatch };
  Kind kind = Kind::kPrompt;
  int32_t tokens = 0;     // kPrompt: of the prompt; else keys already there
  int32_t sequences = 1;  // kBatch: that decode at once
  int32_t steps = 0;      // kDecode, kBatch: tokens that each sequence gets

  std::string Name() const;  // "prompt_512", "decode_2048", "batch_8"
};

// What experts did, summed over layers; all 0 where there are none.
struct ExpertWork {
  int64_t layers = 0;           // of all rounds
  double read_share = 0;        // of the expert matrices, summed over these layers
  int64_t rows_wanted = 0;      // that tokens sent to experts
  int64_t rows_multiplied = 0;  // that products computed

  double mean_read_share() const { return read_share / static_cast<double>(layers); }
  double rows_useful_share() const {
    return static_cast<double>(rows_wanted) / static_cast<double>(rows_multiplied);
  }
  ExpertWork& operator+=(const ExpertWork& other);
};

struct BenchSample {
  double seconds = 0;
  int64_t tokens = 0;                // computed in all
  int64_t logit_rows = 0;            // of them with logits
  std::vector<double> step_seconds;  // of each round
  BenchWork work;
  ExpertWork experts;

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

class BenchRunner {
 public:
  // Loads the model with room for these rows and no others. options.context_max, sequences_max and
  // kv_memory_bytes are set here.
  static Result<std::unique_ptr<BenchRunner>> Open(const std::string& file,
                                                   LoadEngineOptions options,
                                                   const std::vector<BenchRow>& rows);

  // kInvalidArgument: the row needs more room than the rows at Open.
  Result<BenchSample> Measure(const BenchRow& row);

  const ModelFile& file() const { return *model_.file; }
  Backend& backend() { return model_.runner->backend(); }
  const ModelShape& shape() const { return model_.runner->shape(); }

 private:
  BenchRunner(LoadedModel model, ModelWork work);

  void FillPages();
  BenchSample MeasurePrompt(const BenchRow& row);
  BenchSample MeasureSteps(const BenchRow& row);
  void RunRound(const std::vector<BatchSequence>& batch, BenchSample* sample);

  LoadedModel model_;
  ModelWork work_;
  std::vector<int32_t> tokens_;  // by position
  std::vector<KvPageId> pages_;  // 0, 1, ...
};

}  // namespace remontoir
