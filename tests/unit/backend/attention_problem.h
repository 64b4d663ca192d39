// Random attention problems with everything a schedule folds in, and what they mean in float64.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/flash_attention.h"
#include "base/random.h"
#include "tests/support/kernel_cases.h"

namespace remontoir::testing {

// Draws one after the other from a stream.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed, 77) {}

  int32_t Below(int32_t bound) {
    return static_cast<int32_t>(random_.Bits(next_++) % static_cast<uint64_t>(bound));
  }
  int32_t Between(int32_t low, int32_t high) { return low + Below(high - low + 1); }
  bool Chance(double probability) { return random_.Uniform(next_++) < probability; }
  template <class T, size_t kCount>
  T OneOf(const std::array<T, kCount>& values) {
    return values[static_cast<size_t>(Below(static_cast<int32_t>(kCount)))];
  }

 private:
  CounterRandom random_;
  uint64_t next_ = 0;
};

struct AttentionProblem {
  DType type = DType::kF32;
  int32_t kv_heads = 1;
  int32_t heads = 1;
  int32_t width = 64;  // of keys and values
  int32_t keys_per_block = 64;
  float scale = 1;
  float soft_cap = 0;
  std::vector<float> sink_logits;
  ScheduleMask mask;  // of the two vectors below
  std::vector<int32_t> documents;
  std::vector<uint8_t> visible;
  std::vector<int32_t> cu_q = {0};
  std::vector<int64_t> cu_k = {0};
  std::vector<float> queries, keys, values;

  AttentionProblem() = default;
  AttentionProblem(const AttentionProblem&) = delete;
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  KvLayout Layout() const {
    return KvLayout(
        {{.kv_heads = kv_heads, .key_width = width, .value_width = width, .type = type}});
  }
  size_t row_count() const { return static_cast<size_t>(cu_q.back()); }
  int32_t keys_max() const {
    int64_t most = 0;
    for (size_t s = 0; s + 1 < cu_k.size(); ++s) most = std::max(most, cu_k[s + 1] - cu_k[s]);
    return static_cast<int32_t>(most);
  }
  void Fill(uint64_t seed) {
    const auto q = static_cast<size_t>(heads * width);
    const auto kv = static_cast<size_t>(kv_heads * width);
    queries = Normals(row_count() * q, 3 * seed);
    keys = Normals(static_cast<size_t>(cu_k.back()) * kv, 3 * seed + 1);
    values = Normals(static_cast<size_t>(cu_k.back()) * kv, 3 * seed + 2);
    scale = 1 / std::sqrt(static_cast<float>(width));
  }
  TileScheduleLimits Limits() const {
    return {.rows_max = std::max(1, cu_q.back()),
            .sequences_max = static_cast<int32_t>(cu_q.size()),
            .context_max = std::max(1, keys_max()),
            .keys_per_block = keys_per_block,
            .heads_max = mask.blocks.heads};
  }

  bool Sees(size_t sequence, int32_t head, int32_t position, int32_t key) const {
    if (key > position || (mask.window > 0 && key <= position - mask.window)) return false;
    if (!documents.empty()) {
      const int32_t* ids = documents.data() + cu_k[sequence];
      if (ids[key] != ids[position]) return false;
    }
    if (visible.empty()) return true;
    const BlockMask& m = mask.blocks;
    const int32_t heads_per_mask = heads / m.heads;
    const auto s = m.sequences == 1 ? 0 : static_cast<int32_t>(sequence);
    const int32_t line =
        (s * m.heads + head / heads_per_mask) * m.query_blocks + position / m.positions_per_block;
    return visible[static_cast<size_t>(line * m.key_blocks + key / keys_per_block)] != 0;
  }
};

struct AttentionResult {
  std::vector<float> out;
  std::vector<float> lse;
};

inline AttentionBatch BatchOf(const AttentionProblem& problem, const KvLayout& layout,
                              const TileSchedule& schedule, AttentionResult* result) {
  const size_t rows = problem.row_count() * static_cast<size_t>(problem.heads);
  result->out.assign(rows * static_cast<size_t>(problem.width), NAN);
  result->lse.assign(rows, NAN);
  AttentionBatch batch;
  batch.queries = problem.queries;
  batch.out = result->out;
  batch.lse = result->lse;
  batch.heads = problem.heads;
  batch.layout = &layout;
  batch.cu_seqlens_q = problem.cu_q;
  batch.cu_seqlens_k = problem.cu_k;
  batch.schedule = &schedule;
  batch.scale = problem.scale;
  batch.soft_cap = problem.soft_cap;
  batch.sink_logits = problem.sink_logits;
  batch.window = problem.mask.window;
  batch.documents = problem.documents;
  return batch;
}

// Through the public entry, of contiguous keys and values.
inline Status Attend(const AttentionProblem& problem, FlashAttentionWorkspace* workspace,
                     AttentionResult* result) {
  const KvLayout layout = problem.Layout();
  TileScheduleBuilder builder(problem.Limits());
  REM_RETURN_IF_ERROR(builder.Check(problem.cu_q, problem.cu_k, problem.mask));
  const TileSchedule& schedule = builder.Build(problem.cu_q, problem.cu_k, problem.mask);
  const AttentionBatch batch = BatchOf(problem, layout, schedule, result);
  return flash_attn_varlen_fwd_with_sparsity_mask(batch, {problem.keys, problem.values}, workspace);
}

// A softmax over exactly the keys that the row sees, in float64.
class DenseReference {
 public:
  explicit DenseReference(const AttentionProblem& problem)
      : problem_(problem), keys_(Stored(problem.keys)), values_(Stored(problem.values)) {}

  struct Row {
    std::vector<double> out;
    double lse = -std::numeric_limits<double>::infinity();
  };

  Row Attend(size_t sequence, int32_t row, int32_t head) const {
    const AttentionProblem& p = problem_;
    const auto width = static_cast<size_t>(p.width);
    const auto rows_after = p.cu_q[sequence + 1] - row;
    const auto position =
        static_cast<int32_t>(p.cu_k[sequence + 1] - p.cu_k[sequence]) - rows_after;
    const float* query = &p.queries[static_cast<size_t>(row * p.heads + head) * width];
    std::vector<std::pair<size_t, double>> scores;  // by offset of the key
    for (int32_t key = 0; key <= position; ++key) {
      if (!p.Sees(sequence, head, position, key)) continue;
      const auto kv_row =
          static_cast<size_t>(p.cu_k[sequence] + key) * static_cast<size_t>(p.kv_heads) +
          static_cast<size_t>(head / (p.heads / p.kv_heads));
      double score = 0;
      for (size_t d = 0; d < width; ++d) {
        score += static_cast<double>(query[d]) * static_cast<double>(keys_[kv_row * width + d]);
      }
      score *= static_cast<double>(p.scale);
      const auto cap = static_cast<double>(p.soft_cap);
      if (cap != 0) score = cap * std::tanh(score / cap);
      scores.emplace_back(kv_row * width, score);
    }
    return Softmax(scores, head);
  }

 private:
  Row Softmax(const std::vector<std::pair<size_t, double>>& scores, int32_t head) const {
    Row result;
    result.out.assign(static_cast<size_t>(problem_.width), 0);
    double max = -std::numeric_limits<double>::infinity();
    for (const auto& [at, score] : scores) max = std::max(max, score);
    double sum = 0;
    for (const auto& [at, score] : scores) sum += std::exp(score - max);
    if (scores.empty()) return result;
    result.lse = max + std::log(sum);
    double total = result.lse;
    if (!problem_.sink_logits.empty()) {
      const auto sink = static_cast<double>(problem_.sink_logits[static_cast<size_t>(head)]);
      total = std::max(total, sink) + std::log1p(std::exp(-std::fabs(total - sink)));
    }
    for (const auto& [at, score] : scores) {
      const double weight = std::exp(score - total);
      for (size_t d = 0; d < result.out.size(); ++d) {
        result.out[d] += weight * static_cast<double>(values_[at + d]);
      }
    }
    return result;
  }

  std::vector<float> Stored(const std::vector<float>& rows) const {
    std::vector<float> stored;
    const auto width = static_cast<std::ptrdiff_t>(problem_.width);
    for (auto at = rows.begin(); at != rows.end(); at += width) {
      const std::vector<float> row = AsStored({at, at + width}, problem_.type);
      stored.insert(stored.end(), row.begin(), row.end());
    }
    return stored;
  }

  const AttentionProblem& problem_;
  const std::vector<float> keys_, values_;
};

}  // namespace remontoir::testing
