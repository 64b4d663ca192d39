// What the engine counts and measures.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "metrics/bounds.h"
#include "metrics/metric_set.h"
#include "scheduler/scheduler.h"
#include "tensor/kv_layout.h"

namespace remontoir {

struct EngineMetrics : MetricSet {
  explicit EngineMetrics(int32_t kv_page_count) {
    AddInfo({"vllm:cache_config_info", "Tokens of a KV page, and pages"},
            {{"block_size", std::to_string(kKvPageTokens)},
             {"num_gpu_blocks", std::to_string(kv_page_count)}});
  }

  // The engine's thread raises these as it goes.
  CounterTable& finished = AddCounters(
      {"remontoir_sequences_finished_total",
       "Sequences that ended; abort: cancelled, or its client left", "vllm:request_success_total"},
      {"finished_reason", {"stop", "length", "abort"}});
  Histogram& queue =
      AddHistogram({"remontoir_queue_seconds", "From a sequence's arrival to its admission",
                    "vllm:request_queue_time_seconds"},
                   kQueueBounds);
  Histogram& prefill =
      AddHistogram({"remontoir_prefill_seconds",
                    "From a sequence's admission to its first token, of sequences that finished",
                    "vllm:request_prefill_time_seconds"},
                   kFirstTokenBounds);
  Histogram& decode =
      AddHistogram({"remontoir_decode_seconds",
                    "From a sequence's first token to its last, of sequences that finished",
                    "vllm:request_decode_time_seconds"},
                   kAnswerBounds);
  Histogram& inference =
      AddHistogram({"remontoir_inference_seconds",
                    "From a sequence's admission to its last token, of sequences that finished",
                    "vllm:request_inference_time_seconds"},
                   kAnswerBounds);
  Histogram& round =
      AddHistogram({"remontoir_round_seconds", "Time of a round of the engine"}, kRoundBounds);
  Histogram& round_tokens =
      AddHistogram({"remontoir_round_tokens", "Tokens that a round computed, prefill and decode",
                    "vllm:iteration_tokens_total"},
                   kTokenBounds);

  Histogram& window =
      AddHistogram({"remontoir_round_window_seconds", "Time budget of a round"}, kRoundBounds);
  Histogram& round_sequences =
      AddHistogram({"remontoir_round_sequences", "Sequences that share a round"}, kTokenBounds);
  Gauge& utilisation = AddGauge(
      {"remontoir_slots_utilisation_ratio", "Share of the slots that the last round used, 0 to 1"});
  Histogram& prediction_error = AddHistogram(
      {"remontoir_first_token_prediction_error_seconds",
       "How far the first token was from where admission predicted it, earlier or later"},
      kFirstTokenBounds);
  Histogram& room_bucketed =
      AddHistogram({"remontoir_kv_room_bucketed_seconds",
                    "From the decision to admit a sequence to its room in the arena"},
                   kKvLeaseBounds);
  Histogram& room_dynamic =
      AddHistogram({"remontoir_kv_room_dynamic_seconds",
                    "From the decision to admit a sequence to its room from the system"},
                   kKvLeaseBounds);

  // Copies of EngineStats, as old as the last Update.
  Gauge& running =
      AddGauge({"remontoir_sequences_running", "Sequences in flight", "vllm:num_requests_running"});
  Gauge& waiting = AddGauge({"remontoir_sequences_waiting", "Sequences that wait for admission",
                             "vllm:num_requests_waiting"});
  Gauge& kv_pages = AddGauge({"remontoir_kv_pages", "KV pages, held and free"});
  Gauge& kv_pages_free = AddGauge({"remontoir_kv_pages_free", "KV pages that hold nothing"});
  Gauge& kv_pages_cached = AddGauge(
      {"remontoir_kv_pages_cached", "KV pages of the prefix cache alone, given to who needs room"});
  Counter& cache_hits = AddCounter(
      {"remontoir_prefix_cache_hits_total", "Prompts of which something was in the prefix cache"});
  Counter& cache_misses = AddCounter(
      {"remontoir_prefix_cache_misses_total", "Prompts looked up in the prefix cache in vain"});
  Counter& cache_tokens =
      AddCounter({"remontoir_prefix_cache_tokens_total", "Prompt tokens found in the prefix cache",
                  "vllm:prefix_cache_hits_total"});
  Counter& cache_evictions = AddCounter(
      {"remontoir_prefix_cache_evictions_total", "Pages that the prefix cache gave to a lease"});
  Gauge& segments = AddGauge({"remontoir_attention_segments", "Sealed segments, held and free"});
  Gauge& segments_free =
      AddGauge({"remontoir_attention_segments_free", "Sealed segments that hold nothing"});
  Gauge& segments_kept = AddGauge({"remontoir_attention_segments_kept",
                                   "Sealed segments that are kept with pages of the prefix cache"});
  Counter& segments_matched =
      AddCounter({"remontoir_attention_segments_matched_total",
                  "Sealed segments that came with a prefix found in the cache"});
  Counter& segments_sealed = AddCounter(
      {"remontoir_attention_segments_sealed_total", "Segments sealed, in parts of their layers"});
  Counter& sparse_rows = AddCounter({"remontoir_attention_sparse_rows_total",
                                     "Rows, prompt tokens and drawn ones, attended to sparsely"});
  Counter& far_blocks = AddCounter({"remontoir_attention_far_blocks_total",
                                    "Far blocks of sparse row groups, over all layers and heads"});
  Counter& chosen_blocks = AddCounter(
      {"remontoir_attention_chosen_blocks_total", "Far blocks of these that were read exactly"});
  Gauge& residual_max =
      AddGauge({"remontoir_attention_residual_max_ratio",
                "Largest residual of a sparse row since the start, a part of its weight, 0 to 1"});
  Gauge& kv_usage =
      AddGauge({"remontoir_kv_usage_ratio", "Share of the KV pages that is held, 0 to 1",
                "vllm:kv_cache_usage_perc"});
  Counter& path_allocations = AddCounter(
      {"remontoir_request_path_heap_allocations_total",
       "Heap allocations of the engine's threads from admission to last token; stays 0"});
  Counter& path_faults =
      AddCounter({"remontoir_request_path_page_faults_total",
                  "Page faults of the engine's threads from admission to last token: of code that "
                  "runs for the first time, then of dynamic rooms alone"});
  Gauge& forecast_fallback =
      AddGauge({"remontoir_forecast_fallback",
                "1 while the forecast of arrivals is a moving average alone, not the network"});
  Gauge& forecast_lstm_score = AddGauge(
      {"remontoir_forecast_lstm_score", "Mean log score of the network's forecasts, nats"});
  Gauge& forecast_ewma_score = AddGauge(
      {"remontoir_forecast_ewma_score", "Mean log score of the moving average's forecasts, nats"});
  Gauge& forecast_lstm_weight = AddGauge(
      {"remontoir_forecast_lstm_weight_ratio", "What the network counts in the mixture, 0 to 1"});
  Gauge& arrivals_expected = AddGauge(
      {"remontoir_forecast_arrivals", "Requests that the next 100 ms are expected to bring"});
  Counter& rounds = AddCounter({"remontoir_rounds_total", "Rounds of the engine"});
  Counter& tokens_prefilled =
      AddCounter({"remontoir_prefilled_tokens_total", "Prompt tokens that rounds computed"});
  Counter& tokens_generated =
      AddCounter({"remontoir_generated_tokens_total",
                  "Tokens that were drawn, also those behind a stop string that no client sees"});

  void Update(const EngineStats& stats) {
    running.Set(stats.running);
    waiting.Set(stats.waiting);
    kv_pages.Set(stats.kv.pages_total);
    kv_pages_free.Set(stats.kv.pages_free);
    kv_pages_cached.Set(stats.kv.pages_cached);
    const int32_t held = stats.kv.pages_leased + stats.kv.pages_shared;
    kv_usage.Set(stats.kv.pages_total == 0 ? 0.0
                                           : static_cast<double>(held) / stats.kv.pages_total);
    segments.Set(stats.kv.segments_total);
    segments_free.Set(stats.kv.segments_free);
    segments_kept.Set(stats.kv.segments_kept);
    segments_matched.Set(stats.kv.segments_matched);
    segments_sealed.Set(stats.seals_each > 0 ? stats.seals / stats.seals_each : 0);
    sparse_rows.Set(stats.sparse_rows);
    far_blocks.Set(stats.far_blocks);
    chosen_blocks.Set(stats.chosen_blocks);
    residual_max.Set(stats.residual_max);
    cache_hits.Set(stats.kv.hits);
    cache_misses.Set(stats.kv.misses);
    cache_tokens.Set(stats.kv.tokens_matched);
    cache_evictions.Set(stats.kv.evictions);
    path_allocations.Set(stats.path_costs.heap_allocations);
    path_faults.Set(stats.path_costs.page_faults);
    forecast_fallback.Set(stats.forecast_falls_back ? 1 : 0);
    forecast_lstm_score.Set(stats.forecast_lstm_score);
    forecast_ewma_score.Set(stats.forecast_ewma_score);
    forecast_lstm_weight.Set(stats.forecast_lstm_weight);
    arrivals_expected.Set(stats.arrivals_expected);
    rounds.Set(stats.rounds);
    tokens_prefilled.Set(stats.tokens_prefilled);
    tokens_generated.Set(stats.tokens_generated);
  }

  void ObserveRound(const Round& ended, int32_t sequences_max) {
    window.Observe(ended.window_us);
    round_sequences.Observe(static_cast<int64_t>(ended.shares.size()));
    utilisation.Set(static_cast<double>(ended.shares.size()) / sequences_max);
  }

  void ObservePrediction(int64_t predicted_us, int64_t first_token_us) {
    prediction_error.Observe(std::abs(predicted_us - first_token_us));
  }

  void ObserveRoom(bool dynamic, int64_t init_us) {
    (dynamic ? room_dynamic : room_bucketed).Observe(init_us);
  }

  void CountFinish(FinishReason reason) {
    const size_t row = reason == FinishReason::kStop ? 0 : reason == FinishReason::kLength ? 1 : 2;
    finished.At(row).Add();
  }

  // first_token: of a sequence that drew one.
  void ObserveTimes(TimePoint admitted, std::optional<TimePoint> first_token, TimePoint end) {
    prefill.Observe(ElapsedUs(admitted, first_token.value_or(end)));
    if (first_token.has_value()) decode.Observe(ElapsedUs(*first_token, end));
    inference.Observe(ElapsedUs(admitted, end));
  }
};

}  // namespace remontoir
