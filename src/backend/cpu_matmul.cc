// Cuts products into tiles of some panels and rows. Cuts change no bit: see kernels/matmul.h.
#include "backend/cpu_matmul.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace remontoir {
namespace {

// Rows of a tile: their 8-bit form stays in the second-level cache while panels pass by.
constexpr int32_t kTileRows = 64;
// Bounds of a tile, in multiplications and in bytes of panels: some ten microseconds, so that a
// tile on a descheduled worker delays a step little. Bigger ones stream better: where a tile begins
// the processor's prefetchers start anew.
constexpr int64_t kTileProducts = int64_t{2} << 20;
constexpr int64_t kTilePanelBytes = int64_t{256} << 10;
// Few tiles are cut further until each worker has one, down to what is worth handing over.
constexpr int64_t kTilePanelBytesMin = int64_t{16} << 10;

// Where one run of tiles of a step lies.
struct TileGrid {
  int32_t row_tiles = 0;
  int32_t panel_tiles = 0;
  int32_t panels_per_tile = 1;

  int32_t tiles() const { return row_tiles * panel_tiles; }
};

int64_t DivideUp(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

TileGrid PlanGrid(const PackedLayout& layout, int64_t rows, int64_t workers) {
  const int64_t panels = layout.panel_count();
  const int64_t products =
      panels * kPanelRows * layout.in_width * std::min<int64_t>(rows, kTileRows);
  const int64_t bytes = layout.bytes();
  int64_t panel_tiles =
      std::max(DivideUp(products, kTileProducts), DivideUp(bytes, kTilePanelBytes));
  const int64_t row_tiles = DivideUp(rows, kTileRows);
  if (row_tiles < workers) {
    panel_tiles = std::max(panel_tiles, std::min(DivideUp(panel_tiles, workers) * workers,
                                                 bytes / kTilePanelBytesMin));
  }
  const int64_t panels_per_tile = DivideUp(panels, std::clamp<int64_t>(panel_tiles, 1, panels));
  TileGrid grid;
  grid.row_tiles = static_cast<int32_t>(row_tiles);
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
};

template <class Input>
PanelProduct<Input> DescribeProduct(const ProductTile& tile, const Input* in, int64_t in_stride) {
  const PackedLayout& layout = tile.plan->weight->layout;
  const int64_t column = tile.panel_begin * kPanelRows;
  const ActivationMatrix& out = *tile.plan->out;
  PanelProduct<Input> product{};
  product.panels = tile.plan->weight->Panel(tile.expert, tile.panel_begin);
  product.panel_bytes = layout.panel_bytes;
  product.panel_count = static_cast<int>(tile.panel_end - tile.panel_begin);
  product.columns =
      static_cast<int>(std::min(tile.panel_end * kPanelRows, layout.out_width) - column);
  product.in_width = layout.in_width;
  product.in = in + tile.in_row * in_stride;
  product.in_stride = in_stride;
  product.row_index = tile.row_index;
  product.rows = tile.rows;
  product.out = out.Row(tile.out_row) + column;
  product.out_stride = out.width;
  return product;
}

void RunProductTile(const KernelTable& kernels, const ProductTile& tile) {
  const ProductPlan& plan = *tile.plan;
  const PackedLayout& layout = plan.weight->layout;
  const auto format = static_cast<size_t>(layout.format);
  if (IsFloatFormat(layout.format)) {
    kernels.float_product[format](DescribeProduct<float>(tile, tile.in->values, tile.in->width));
  } else if (plan.fine_activations) {
    // Both 8-bit forms of a row, one after the other.
    auto product = DescribeProduct<ActivationBlock>(tile, tile.in->fine_blocks, 0);
    product.in += 2 * tile.in_row * tile.in->block_stride();
    product.in_stride = tile.in->block_stride();
    product.row_pairs = true;
    kernels.quantised_product[format](product);
  } else {
    kernels.quantised_product[format](
        DescribeProduct<ActivationBlock>(tile, tile.in->blocks, tile.in->block_stride()));
  }
  if (plan.bias == nullptr && plan.scale == 1.0f && plan.soft_cap == 0.0f) return;
  const int64_t column = tile.panel_begin * kPanelRows;
  const int64_t columns = std::min(tile.panel_end * kPanelRows, layout.out_width) - column;
  for (int32_t r = 0; r < tile.rows; ++r) {
    float* out = plan.out->Row(tile.out_row + r) + column;
    if (plan.bias != nullptr) kernels.add(plan.bias + column, columns, out);
    if (plan.scale != 1.0f) kernels.scale(plan.scale, columns, out);
    if (plan.soft_cap != 0.0f) kernels.soft_cap(plan.soft_cap, columns, out);
  }
}

class MatMulStep final : public Step {
 public:
  MatMulStep(const RoundState& round, const ProductGroup& group) : round_(round), group_(group) {}

  int32_t Begin() override {
    rows_ = round_.Rows(group_.in->space);
    int32_t tiles = 0;
    for (int32_t p = 0; p < group_.count; ++p) {
      grids_[static_cast<size_t>(p)] =
          PlanGrid(group_.products[static_cast<size_t>(p)].weight->layout, rows_, round_.workers);
      tiles += grids_[static_cast<size_t>(p)].tiles();
    }
    return tiles;
  }

  void RunTile(int32_t tile, int32_t) override {
    size_t p = 0;
    while (tile >= grids_[p].tiles()) tile -= grids_[p++].tiles();
    const TileGrid& grid = grids_[p];
    ProductTile product;
    product.plan = &group_.products[p];
    product.in = group_.in;
    // Rows vary fastest: the workers read the same panels at about the same time.
    product.panel_begin = int64_t{tile / grid.row_tiles} * grid.panels_per_tile;
    product.panel_end = std::min(product.panel_begin + grid.panels_per_tile,
                                 product.plan->weight->layout.panel_count());
    product.in_row = int64_t{tile % grid.row_tiles} * kTileRows;
    product.out_row = product.in_row;
    product.rows = static_cast<int32_t>(std::min<int64_t>(kTileRows, rows_ - product.in_row));
    RunProductTile(*round_.kernels, product);
  }

 private:
  const RoundState& round_;
  const ProductGroup group_;
  int32_t rows_ = 0;
  std::array<TileGrid, kProductsMax> grids_;
};

class GroupedMatMulStep final : public Step {
 public:
  GroupedMatMulStep(const RoundState& round, const ProductGroup& group)
      : round_(round), group_(group) {
    runs_.reserve(static_cast<size_t>(group.count) *
                  static_cast<size_t>(group.products[0].weight->experts));
  }

  int32_t Begin() override {
    const RoutingState& routing = round_.routing;
    runs_.clear();
    int32_t tiles = 0;
    for (int32_t expert : routing.active) {
      const auto e = static_cast<size_t>(expert);
      const int32_t rows = routing.first_row[e + 1] - routing.first_row[e];
      for (int32_t p = 0; p < group_.count; ++p) {
        const ProductPlan* plan = &group_.products[static_cast<size_t>(p)];
        runs_.push_back(
            {tiles, expert, rows, plan, PlanGrid(plan->weight->layout, rows, round_.workers)});
        tiles += runs_.back().grid.tiles();
      }
    }
    return tiles;
  }

  void RunTile(int32_t tile, int32_t) override {
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), tile,
                         [](int32_t wanted, const Run& run) { return wanted < run.first_tile; });
    const Run& run = *(after - 1);
    const int32_t local = tile - run.first_tile;
    const RoutingState& routing = round_.routing;
    const int32_t row_begin = local % run.grid.row_tiles * kTileRows;
    ProductTile product;
    product.plan = run.plan;
    product.in = group_.in;
    product.expert = run.expert;
    product.panel_begin = int64_t{local / run.grid.row_tiles} * run.grid.panels_per_tile;
    product.panel_end = std::min(product.panel_begin + run.grid.panels_per_tile,
                                 run.plan->weight->layout.panel_count());
    product.out_row = routing.first_row[static_cast<size_t>(run.expert)] + row_begin;
    product.rows = std::min(kTileRows, run.rows - row_begin);
    if (group_.in->space == RowSpace::kTokens) {
      product.row_index = routing.token_of_row.data() + product.out_row;
    } else {
      product.in_row = product.out_row;
    }
    RunProductTile(*round_.kernels, product);
  }

 private:
  // The tiles of one expert and product.
  struct Run {
    int32_t first_tile;
    int32_t expert;
    int32_t rows;
    const ProductPlan* plan;
    TileGrid grid;
  };

  const RoundState& round_;
  const ProductGroup group_;
  std::vector<Run> runs_;  // by first_tile
};

}  // namespace

std::unique_ptr<Step> MakeMatMulStep(const RoundState& round, const ProductGroup& group) {
  return std::make_unique<MatMulStep>(round, group);
}

std::unique_ptr<Step> MakeGroupedMatMulStep(const RoundState& round, const ProductGroup& group) {
  return std::make_unique<GroupedMatMulStep>(round, group);
}

}  // namespace remontoir
