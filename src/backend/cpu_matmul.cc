// Cuts products into tiles of some panels and rows. Cuts change no bit: see kernels/matmul.h.
#include "backend/cpu_matmul.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace remontoir {
namespace {

// Rows of a tile: their 8-bit form stays in the second-level cache while panels pass by.
constexpr int32_t kTileRows = 64;
constexpr int32_t kTileRowsStep = 8;
// Bounds of a tile, in multiplications and in bytes of panels: some ten microseconds, so that a
// tile on a descheduled worker delays a step little. Bigger ones stream better: where a tile begins
// the processor's prefetchers start anew.
constexpr int64_t kTileProducts = int64_t{2} << 20;
constexpr int64_t kTilePanelBytes = int64_t{256} << 10;
// Panels of a gated tile come in these, so that no two tiles share a block of 32 columns.
constexpr int64_t kGateStep = kActivationBlock / kPanelRows;
// Few tiles are cut further until each worker has one, down to what is worth handing over.
constexpr int64_t kTilePanelBytesMin = int64_t{16} << 10;

// Where one run of tiles of a step lies.
struct TileGrid {
  int32_t row_tiles = 0;
  int32_t rows_per_tile = 1;
  int32_t panel_tiles = 0;
  int32_t panels_per_tile = 1;

  int32_t tiles() const { return row_tiles * panel_tiles; }
  // Rows vary fastest: the workers read the same panels at about the same time.
  int64_t FirstPanel(int32_t tile) const { return int64_t{tile / row_tiles} * panels_per_tile; }
};

int64_t DivideUp(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// `matrices` of this layout are multiplied in every tile, which ends where a multiple of
// `panel_step` panels does.
TileGrid PlanGrid(const PackedLayout& layout, int64_t rows, int64_t workers, int64_t matrices = 1,
                  int64_t panel_step = 1) {
  const int64_t panels = layout.panel_count();
  const int64_t products =
      matrices * panels * kPanelRows * layout.in_width * std::min<int64_t>(rows, kTileRows);
  const int64_t bytes = layout.bytes();
  int64_t panel_tiles =
      std::max(DivideUp(products, kTileProducts), DivideUp(bytes, kTilePanelBytes));
  const int64_t row_tiles = DivideUp(rows, kTileRows);
  if (row_tiles < workers) {
    panel_tiles = std::max(panel_tiles, std::min(DivideUp(panel_tiles, workers) * workers,
                                                 bytes / kTilePanelBytesMin));
  }
  const int64_t least = DivideUp(panels, std::clamp<int64_t>(panel_tiles, 1, panels));
  const int64_t panels_per_tile = DivideUp(least, panel_step) * panel_step;
  TileGrid grid;
  grid.row_tiles = static_cast<int32_t>(row_tiles);
  // As many rows in each: 65 rows are no tile of 64 and one that reads all panels for a single row.
  grid.rows_per_tile = static_cast<int32_t>(
      DivideUp(DivideUp(rows, std::max<int64_t>(row_tiles, 1)), kTileRowsStep) * kTileRowsStep);
  grid.panel_tiles = static_cast<int32_t>(DivideUp(panels, panels_per_tile));
  grid.panels_per_tile = static_cast<int32_t>(panels_per_tile);
  return grid;
}

// One tile of one product.
struct ProductTile {
  const ProductPlan* plan = nullptr;
  const ActivationMatrix* in = nullptr;
  int64_t expert = 0;
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  int64_t in_row = 0;                  // first row of `in`, when row_index is null
  const int32_t* row_index = nullptr;  // else the rows of `in`
  int64_t out_row = 0;
  int32_t rows = 0;
  int64_t in_column = 0;  // where the values of a row begin that are multiplied
  int64_t out_column = 0;
  std::byte* panel_scratch = nullptr;  // of the worker, where the matrix is mapped
  const std::byte* after = nullptr;    // what its worker reads next, about; null: unknown
  const std::byte* packed = nullptr;   // not null: its one panel, in that scratch
};

// Null where panels are packed as they are needed.
const std::byte* PanelOf(const ProductPlan& plan, int64_t expert, int64_t panel) {
  return plan.weight->is_mapped() ? nullptr : plan.weight->Panel(expert, panel);
}

// Calls run(part) for parts that are the whole tile together: for all of it where its panels are
// packed, else for one panel after the other, packed for this once.
template <class Run>
void ForPackedParts(const ProductTile& tile, const Run& run) {
  const PackedMatrices& weight = *tile.plan->weight;
  if (!weight.is_mapped()) return run(tile);
  ProductTile part = tile;
  part.packed = tile.panel_scratch;
  for (int64_t panel = tile.panel_begin; panel < tile.panel_end; ++panel) {
    PackPanel(weight.layout, weight.mapped.type, weight.MappedRows(tile.expert), panel,
              tile.panel_scratch);
    part.panel_begin = panel;
    part.panel_end = panel + 1;
    run(part);
  }
}

template <class Input>
PanelProduct<Input> DescribeProduct(const ProductTile& tile, const Input* in, int64_t in_stride) {
  const PackedLayout& layout = tile.plan->weight->layout;
  const int64_t column = tile.panel_begin * kPanelRows;
  const ActivationMatrix& out = *tile.plan->out;
  PanelProduct<Input> product{};
  product.panels = tile.packed != nullptr ? tile.packed
                                          : tile.plan->weight->Panel(tile.expert, tile.panel_begin);
  product.panel_bytes = layout.panel_bytes;
  product.panel_count = static_cast<int>(tile.panel_end - tile.panel_begin);
  product.columns =
      static_cast<int>(std::min(tile.panel_end * kPanelRows, layout.out_width) - column);
  product.in_width = layout.in_width;
  constexpr int64_t kInputValues = std::is_same_v<Input, float> ? 1 : kActivationBlock;
  product.in = in + tile.in_row * in_stride + tile.in_column / kInputValues;
  product.in_stride = in_stride;
  product.row_index = tile.row_index;
  product.rows = tile.rows;
  product.out = out.Row(tile.out_row) + tile.out_column + column;
  product.out_stride = out.width;
  product.after = tile.after;
  return product;
}

// Of the tile's first column; null: none.
const float* BiasOf(const ProductTile& tile) {
  const ProductPlan& plan = *tile.plan;
  if (plan.bias == nullptr) return nullptr;
  return plan.bias + tile.expert * plan.weight->layout.out_width + tile.panel_begin * kPanelRows;
}

void RunPackedTile(const KernelTable& kernels, const ProductTile& tile) {
  const ProductPlan& plan = *tile.plan;
  const PackedLayout& layout = plan.weight->layout;
  const auto format = static_cast<size_t>(layout.format);
  if (IsFloatFormat(layout.format)) {
    kernels.float_product[format](DescribeProduct<float>(tile, tile.in->values, tile.in->width));
  } else {
    const ActivationMatrix& in = *tile.in;
    auto product = DescribeProduct<ActivationBlock>(tile, in.blocks, in.block_stride());
    if (plan.fine_activations) {  // both forms of a row, one after the other
      product.row_pairs = true;
      product.in_stride = in.row_blocks();
    }
    kernels.quantised_product[format](product);
  }
  if (plan.bias == nullptr && plan.scale == 1.0f && plan.soft_cap == 0.0f) return;
  const int64_t column = tile.panel_begin * kPanelRows;
  const int64_t columns = std::min(tile.panel_end * kPanelRows, layout.out_width) - column;
  const float* bias = BiasOf(tile);
  for (int32_t r = 0; r < tile.rows; ++r) {
    float* out = plan.out->Row(tile.out_row + r) + column;
    if (bias != nullptr) kernels.add(bias, columns, out);
    if (plan.scale != 1.0f) kernels.scale(plan.scale, columns, out);
    if (plan.soft_cap != 0.0f) kernels.soft_cap(plan.soft_cap, columns, out);
  }
}

void RunProductTile(const KernelTable& kernels, const ProductTile& tile) {
  ForPackedParts(tile, [&](const ProductTile& part) { RunPackedTile(kernels, part); });
}

// Columns of a gated layer go together, as many as leave room for their two products in the
// first-level cache.
constexpr int64_t kGateValues = kTileRows * kGateStep * kPanelRows;
// A tile of more rows writes so little of each 8-bit row that the memory system is the bottleneck
// (a third more time at 512 rows): a step of its own does it row by row.
constexpr int32_t kGateQuantiseRows = 32;

// One product of `tile`, with its bias, into scratch memory: whole panels.
void RunPackedScratchProduct(const KernelTable& kernels, const ProductTile& tile, float* out,
                             int64_t out_stride) {
  const auto format = static_cast<size_t>(tile.plan->weight->layout.format);
  const auto run = [&](auto product, const auto& table) {
    product.out = out;
    product.out_stride = out_stride;
    table[format](product);
  };
  const ActivationMatrix& in = *tile.in;
  if (IsFloatFormat(tile.plan->weight->layout.format)) {
    run(DescribeProduct<float>(tile, in.values, in.width), kernels.float_product);
  } else {
    run(DescribeProduct<ActivationBlock>(tile, in.blocks, in.block_stride()),
        kernels.quantised_product);
  }
  const float* bias = BiasOf(tile);
  if (bias == nullptr) return;
  const int64_t columns = (tile.panel_end - tile.panel_begin) * kPanelRows;
  for (int32_t r = 0; r < tile.rows; ++r) kernels.add(bias, columns, out + r * out_stride);
}

void RunScratchProduct(const KernelTable& kernels, const ProductTile& tile, float* out,
                       int64_t out_stride) {
  ForPackedParts(tile, [&](const ProductTile& part) {
    const int64_t column = (part.panel_begin - tile.panel_begin) * kPanelRows;
    RunPackedScratchProduct(kernels, part, out + column, out_stride);
  });
}

// `tile` names the panels of both matrices and the first one's plan.
void RunGatedTile(const KernelTable& kernels, const ProductGroup& group, const ProductTile& tile,
                  bool quantise) {
  alignas(64) std::array<std::array<float, size_t{kGateValues}>, 2> scratch;
  const ActivationMatrix& out = *group.products[0].out;
  const int64_t step = kGateValues / (tile.rows * kGateStep * kPanelRows) * kGateStep;
  for (int64_t panel = tile.panel_begin; panel < tile.panel_end; panel += step) {
    ProductTile piece = tile;
    piece.panel_begin = panel;
    piece.panel_end = std::min(panel + step, tile.panel_end);
    const int64_t column = panel * kPanelRows;
    const int64_t columns = (piece.panel_end - panel) * kPanelRows;
    const std::byte* next = piece.panel_end == tile.panel_end
                                ? tile.after
                                : PanelOf(group.products[0], tile.expert, piece.panel_end);
    for (size_t p = 0; p < scratch.size(); ++p) {
      piece.plan = &group.products[p];
      piece.after = p == 0 ? PanelOf(group.products[1], tile.expert, panel) : next;
      RunScratchProduct(kernels, piece, scratch[p].data(), columns);
    }
    for (int32_t r = 0; r < tile.rows; ++r) {
      const float* first = scratch[0].data() + r * columns;
      const float* second = scratch[1].data() + r * columns;
      group.gate(first, second, columns, out.Row(tile.out_row + r) + column);
      if (quantise) QuantiseValues(kernels, out, tile.out_row + r, column, columns);
    }
  }
}

class MatMulStep final : public Step {
 public:
  MatMulStep(const RoundState& round, const ProductGroup& group) : round_(round), group_(group) {}

  int32_t QuantiseOutputToo() override {
    quantise_ = group_.gate != nullptr;
    return quantise_ ? kGateQuantiseRows : 0;
  }

  bool ReadsWeights() const override { return true; }
  void NoteNext(const Step* next) override { next_ = next; }
  const std::byte* FirstWeights(int32_t tile) const override {
    return FirstWeightsOf(PlanGrids(round_.Rows(group_.in->space)), tile);
  }

  int32_t Begin() override {
    rows_ = round_.Rows(group_.in->space);
    grids_ = PlanGrids(rows_);
    tiles_ = 0;
    for (const TileGrid& grid : grids_) tiles_ += grid.tiles();
    return tiles_;
  }

  void RunTile(int32_t tile, int32_t) override {
    const std::byte* after = After(tile);
    size_t p = 0;
    while (tile >= grids_[p].tiles()) tile -= grids_[p++].tiles();
    const TileGrid& grid = grids_[p];
    ProductTile product;
    product.plan = &group_.products[p];
    product.in = group_.in;
    product.after = after;
    product.panel_begin = grid.FirstPanel(tile);
    product.panel_end = std::min(product.panel_begin + grid.panels_per_tile,
                                 product.plan->weight->layout.panel_count());
    product.in_row = int64_t{tile % grid.row_tiles} * grid.rows_per_tile;
    product.out_row = product.in_row;
    product.rows =
        static_cast<int32_t>(std::min<int64_t>(grid.rows_per_tile, rows_ - product.in_row));
    if (group_.gate != nullptr) {
      RunGatedTile(*round_.kernels, group_, product, quantise_ && rows_ <= kGateQuantiseRows);
    } else {
      RunProductTile(*round_.kernels, product);
    }
  }

 private:
  using Grids = std::array<TileGrid, kProductsMax>;  // those behind the last have no tiles

  // The products of a gated layer share one.
  Grids PlanGrids(int64_t rows) const {
    Grids grids;
    if (group_.gate != nullptr) {
      grids[0] = PlanGrid(group_.products[0].weight->layout, rows, round_.workers, 2, kGateStep);
      return grids;
    }
    for (size_t p = 0; p < static_cast<size_t>(group_.count); ++p) {
      grids[p] = PlanGrid(group_.products[p].weight->layout, rows, round_.workers);
    }
    return grids;
  }
  const std::byte* FirstWeightsOf(const Grids& grids, int32_t tile) const {
    for (size_t p = 0; p < grids.size(); ++p) {
      if (tile < grids[p].tiles()) return PanelOf(group_.products[p], 0, grids[p].FirstPanel(tile));
      tile -= grids[p].tiles();
    }
    return nullptr;
  }
  // Workers take tiles in turns, about, in this step and the next one.
  const std::byte* After(int32_t tile) const {
    const int32_t following = tile + round_.workers;
    if (following < tiles_) return FirstWeightsOf(grids_, following);
    return next_ == nullptr ? nullptr : next_->FirstWeights(following - tiles_);
  }

  const RoundState& round_;
  const ProductGroup group_;
  const Step* next_ = nullptr;
  int32_t rows_ = 0;
  int32_t tiles_ = 0;
  bool quantise_ = false;
  Grids grids_;
};

class GroupedMatMulStep final : public Step {
 public:
  GroupedMatMulStep(const RoundState& round, const ProductGroup& group)
      : round_(round), group_(group) {
    runs_.reserve(static_cast<size_t>(group.count) *
                  static_cast<size_t>(group.products[0].weight->experts));
  }

  int32_t QuantiseOutputToo() override {
    quantise_ = group_.gate != nullptr;
    return quantise_ ? kGateQuantiseRows : 0;
  }

  int32_t Begin() override {
    const RoutingState& routing = round_.routing;
    runs_.clear();
    int32_t tiles = 0;
    int64_t multiplied = 0;
    for (int32_t expert : routing.active) {
      const auto e = static_cast<size_t>(expert);
      const int32_t rows = routing.first_row[e + 1] - routing.first_row[e];
      const bool gated = group_.gate != nullptr;
      for (int32_t p = 0; p < (gated ? 1 : group_.count); ++p) {
        const ProductPlan* plan = &group_.products[static_cast<size_t>(p)];
        runs_.push_back({tiles, expert, rows, plan,
                         PlanGrid(plan->weight->layout, rows, round_.workers, gated ? 2 : 1,
                                  gated ? kGateStep : 1)});
        tiles += runs_.back().grid.tiles();
        multiplied += int64_t{rows} * (gated ? group_.count : 1);
      }
    }
    CountRows(multiplied);
    tiles_ = tiles;
    return tiles;
  }
  // Which experts a step needs is known when it begins.
  bool ReadsWeights() const override { return true; }

  void RunTile(int32_t tile, int32_t worker) override {
    const Run& run = RunOf(tile);
    const int32_t local = tile - run.first_tile;
    const RoutingState& routing = round_.routing;
    const int32_t row_begin = local % run.grid.row_tiles * run.grid.rows_per_tile;
    ProductTile product;
    product.plan = run.plan;
    product.in = group_.in;
    product.expert = run.expert;
    product.after = After(tile);
    product.panel_begin = run.grid.FirstPanel(local);
    product.panel_end = std::min(product.panel_begin + run.grid.panels_per_tile,
                                 run.plan->weight->layout.panel_count());
    product.out_row = routing.first_row[static_cast<size_t>(run.expert)] + row_begin;
    product.rows = std::min(run.grid.rows_per_tile, run.rows - row_begin);
    product.panel_scratch = round_.PanelScratch(worker);
    if (group_.in->space == RowSpace::kTokens) {
      product.row_index = routing.token_of_row.data() + product.out_row;
    } else {
      product.in_row = product.out_row;
    }
    if (group_.gate != nullptr) {
      RunGatedTile(*round_.kernels, group_, product,
                   quantise_ && round_.Rows(RowSpace::kExperts) <= kGateQuantiseRows);
    } else {
      RunProductTile(*round_.kernels, product);
    }
  }

 private:
  void CountRows(int64_t multiplied) const {
    if (round_.expert_load == nullptr) return;
    round_.expert_load->rows_multiplied.Add(multiplied);
    round_.expert_load->rows_wanted.Add(int64_t{round_.Rows(RowSpace::kExperts)} * group_.count);
  }

  // The tiles of one expert and product.
  struct Run {
    int32_t first_tile;
    int32_t expert;
    int32_t rows;
    const ProductPlan* plan;
    TileGrid grid;
  };

  const Run& RunOf(int32_t tile) const {
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), tile,
                         [](int32_t wanted, const Run& run) { return wanted < run.first_tile; });
    return *(after - 1);
  }
  // Workers take tiles in turns, about.
  const std::byte* After(int32_t tile) const {
    const int32_t following = tile + round_.workers;
    if (following >= tiles_) return nullptr;
    const Run& run = RunOf(following);
    return PanelOf(*run.plan, run.expert, run.grid.FirstPanel(following - run.first_tile));
  }

  const RoundState& round_;
  const ProductGroup group_;
  bool quantise_ = false;
  int32_t tiles_ = 0;
  std::vector<Run> runs_;  // by first_tile
};

class HeadMatMulStep final : public Step {
 public:
  HeadMatMulStep(const RoundState& round, const HeadProduct& product)
      : round_(round), product_(product) {}

  int32_t Begin() override {
    rows_ = round_.Rows(product_.in->space);
    const int32_t workers = (round_.workers + product_.heads - 1) / product_.heads;
    grid_ = PlanGrid(product_.plan.weight->layout, rows_, workers);
    return grid_.tiles() * product_.heads;
  }

  void RunTile(int32_t tile, int32_t) override {
    const int32_t head = tile / grid_.tiles();
    const int32_t local = tile % grid_.tiles();
    ProductTile piece;
    piece.plan = &product_.plan;
    piece.in = product_.in;
    piece.expert = head;
    piece.panel_begin = grid_.FirstPanel(local);
    piece.panel_end = std::min(piece.panel_begin + grid_.panels_per_tile,
                               product_.plan.weight->layout.panel_count());
    piece.in_row = int64_t{local % grid_.row_tiles} * grid_.rows_per_tile;
    piece.out_row = piece.in_row;
    piece.rows = static_cast<int32_t>(std::min<int64_t>(grid_.rows_per_tile, rows_ - piece.in_row));
    piece.in_column = head * product_.in_run;
    piece.out_column = head * product_.out_run;
    RunProductTile(*round_.kernels, piece);
  }

 private:
  const RoundState& round_;
  const HeadProduct product_;
  int32_t rows_ = 0;
  TileGrid grid_;
};

}  // namespace

bool CanGate(const ProductGroup& group) {
  if (group.count != 2) return false;
  const PackedLayout& layout = group.products[0].weight->layout;
  const PackedLayout& other = group.products[1].weight->layout;
  const auto is_plain = [](const ProductPlan& plan) {
    return plan.scale == 1.0f && plan.soft_cap == 0.0f && !plan.fine_activations;
  };
  return layout.format == other.format && layout.in_width == other.in_width &&
         layout.out_width == other.out_width && layout.out_width % kActivationBlock == 0 &&
         is_plain(group.products[0]) && is_plain(group.products[1]);
}

std::unique_ptr<Step> MakeMatMulStep(const RoundState& round, const ProductGroup& group) {
  return std::make_unique<MatMulStep>(round, group);
}

std::unique_ptr<Step> MakeGroupedMatMulStep(const RoundState& round, const ProductGroup& group) {
  return std::make_unique<GroupedMatMulStep>(round, group);
}

std::unique_ptr<Step> MakeHeadMatMulStep(const RoundState& round, const HeadProduct& product) {
  return std::make_unique<HeadMatMulStep>(round, product);
}

}  // namespace remontoir
