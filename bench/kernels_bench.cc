// Times the kernels of every instruction set beside the processor's own peaks, on one core.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/peaks.h"
#include "kernels/kernel_table.h"
#include "tests/support/kernel_cases.h"

namespace remontoir {
namespace {

struct Peaks {
  double fma;
  double int8;
  double int4;
};

// A whole number of cache lines, at one.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size) : bytes_(static_cast<size_t>(size) + 63) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> bytes_;
};

// Operations and bytes a second, and the share of the peak that the operations reach.
void Report(benchmark::State& state, double operations, double bytes, double peak) {
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["GOP/s"] = Counter(operations * 1e-9, rate);
  state.counters["GB/s"] = Counter(bytes * 1e-9, rate);
  state.counters["of_peak"] = Counter(operations * 1e-9 / peak, rate);
}

void RunProduct(benchmark::State& state, const KernelTable& table, const ProductCase& c,
                const Peaks& peaks) {
  const auto weights = RandomWeights(c.type, c.out_width * c.in_width, 1);
  const PackedLayout layout = PlanPacking(c.type, c.out_width, c.in_width, false);
  AlignedBytes packed(layout.bytes());
  PackPanels(layout, c.type, weights.data(), 0, layout.panel_count(), packed.data());
  const auto in = Normals(static_cast<size_t>(c.rows * c.in_width), 2);
  const int64_t blocks = c.in_width / kActivationBlock;
  std::vector<ActivationBlock> quantised(static_cast<size_t>(c.rows * blocks));
  table.quantise_row(in.data(), c.rows * c.in_width, quantised.data());
  std::vector<float> out(static_cast<size_t>(c.rows * c.out_width));
  const auto run = [&](const auto* input, int64_t stride, const auto& kernels) {
    for (auto _ : state) {
      kernels[static_cast<size_t>(layout.format)]({
          .panels = packed.data(),
          .panel_bytes = layout.panel_bytes,
          .panel_count = static_cast<int>(layout.panel_count()),
          .columns = static_cast<int>(c.out_width),
          .in_width = c.in_width,
          .in = input,
          .in_stride = stride,
          .row_index = nullptr,
          .rows = c.rows,
          .out = out.data(),
          .out_stride = c.out_width,
      });
      benchmark::ClobberMemory();
    }
  };
  const bool is_float = IsFloatFormat(layout.format);
  if (is_float) {
    run(in.data(), c.in_width, table.float_product);
  } else {
    run(quantised.data(), blocks, table.quantised_product);
  }
  const double macs = static_cast<double>(c.rows) * static_cast<double>(c.out_width * c.in_width);
  const bool is_int4 = layout.format == PanelFormat::kU4Steps ||
                       layout.format == PanelFormat::kU4Half ||
                       layout.format == PanelFormat::kU4Offset;
  Report(state, 2 * macs, static_cast<double>(layout.bytes()),
         is_float ? peaks.fma : (is_int4 ? peaks.int4 : peaks.int8));
}

struct AttentionCase {
  DType type;
  int width;
  int rows;
};

void RunAttention(benchmark::State& state, const KernelTable& table, const AttentionCase& c,
                  const Peaks& peaks) {
  const int64_t part_bytes =
      static_cast<int64_t>(kKvPageTokens) * c.width * Info(c.type).block_bytes;
  constexpr int kBlocks = kKvPartialKeys / kKvPageTokens;
  AlignedBytes pages(2 * part_bytes * kBlocks);
  std::vector<KeyBlock> blocks;
  for (int b = 0; b < kBlocks; ++b) {
    std::byte* page = pages.data() + 2 * part_bytes * b;
    blocks.push_back({page, page + part_bytes, b});
    for (int slot = 0; slot < kKvPageTokens; ++slot) {
      const auto row = Normals(static_cast<size_t>(c.width), static_cast<uint64_t>(slot));
      table.store_key(row.data(), c.width, c.type, slot, page);
      table.store_value(row.data(), c.width, c.type, slot, page + part_bytes);
    }
  }
  const auto queries = Normals(static_cast<size_t>(c.rows * c.width), 100);
  std::vector<AttentionRow> rows;
  for (int r = 0; r < c.rows; ++r) {
    rows.push_back({queries.data() + static_cast<int64_t>(r) * c.width, 0, kKvPartialKeys});
  }
  std::vector<SoftmaxState> states(rows.size());
  std::vector<float> sums(queries.size());
  for (auto _ : state) {
    table.attention_partial[static_cast<size_t>(c.type)]({
        .rows = rows.data(),
        .row_count = c.rows,
        .blocks = blocks.data(),
        .block_count = kBlocks,
        .key_width = c.width,
        .value_width = c.width,
        .scale = 0.125F,
        .soft_cap = 0,
        .states = states.data(),
        .sums = sums.data(),
    });
    benchmark::ClobberMemory();
  }
  Report(state, 4.0 * c.rows * kKvPartialKeys * c.width,
         2.0 * static_cast<double>(part_bytes) * kBlocks, peaks.fma);
}

void RegisterAll(const KernelTable& table, const Peaks& peaks) {
  const std::string prefix(table.name);
  for (const DType type : kAllTypes) {
    for (const int rows : {1, 4, 64}) {
      const ProductCase c = {type, 1536, 768, rows};
      benchmark::RegisterBenchmark(
          (prefix + "/product/" + Name(c)).c_str(),
          [&table, c, peaks](benchmark::State& state) { RunProduct(state, table, c, peaks); });
    }
  }
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int width : {64, 128}) {
      for (const int rows : {1, 3, 8, 24}) {
        const AttentionCase c = {type, width, rows};
        const std::string name = prefix + "/attention/" + std::string(Info(type).name) + "_width" +
                                 std::to_string(width) + "_rows" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(), [&table, c, peaks](benchmark::State& state) {
          RunAttention(state, table, c, peaks);
        });
      }
    }
  }
}

}  // namespace
}  // namespace remontoir

int main(int argc, char** argv) {
  using namespace remontoir;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  Peaks peaks = {1, 1, 1};
  if (Avx2Kernels() != nullptr) peaks = {FmaPeak(), Int8Peak(), Int4Peak()};
  for (const KernelTable* table : RunnableTables()) RegisterAll(*table, peaks);
  benchmark::AddCustomContext("peak fma GFLOP/s", std::to_string(peaks.fma));
  benchmark::AddCustomContext("peak int8 GOP/s", std::to_string(peaks.int8));
  benchmark::AddCustomContext("peak int4 GOP/s", std::to_string(peaks.int4));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
