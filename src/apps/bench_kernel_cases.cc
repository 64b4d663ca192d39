// Operands hold one byte over and over: the kernels' time doesn't depend on values.
#include "apps/bench_kernel_cases.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "apps/bench_grouped_cases.h"

namespace remontoir {
namespace {

constexpr int kFillByte = 0x2c;                      // an ordinary number in every type
constexpr int64_t kMemoryBytes = int64_t{96} << 20;  // more than caches hold
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int kTileRows = 64;  // as the back end cuts products

// Bytes aligned as kernels want them; large ones in huge pages, as the back end has its weights,
// keys and values.
class Operand {
 public:
  explicit Operand(int64_t bytes) {
    const auto alignment = static_cast<size_t>(bytes < kHugePageBytes ? 64 : kHugePageBytes);
    const size_t size = (static_cast<size_t>(bytes) + 64 + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size)));
    if (bytes >= kHugePageBytes) (void)madvise(data_.get(), size, MADV_HUGEPAGE);
    std::memset(data_.get(), kFillByte, static_cast<size_t>(bytes));
  }
  std::byte* bytes() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

std::shared_ptr<Operand> Take(int64_t bytes) { return std::make_shared<Operand>(bytes); }

// --- Matrix products ---

struct ProductShape {
  int rows;
  int64_t out_width;  // 0: as many as fill kMemoryBytes
  int64_t in_width;
};

constexpr ProductShape kMicroKernelShape = {16, kPanelRows, 1024};
constexpr ProductShape kProductShapes[] = {
    {1, 0, 4096}, {4, 0, 4096}, {16, 0, 4096}, {512, 1536, 4096}, {512, 1536, 768}};

PackedLayout ShapeLayout(DType type, const ProductShape& shape) {
  PackedLayout layout =
      PlanPacking(type, std::max<int64_t>(shape.out_width, kPanelRows), shape.in_width, false);
  if (shape.out_width == 0) layout.out_width = kMemoryBytes / layout.panel_bytes * kPanelRows;
  return layout;
}

// All panels are copies of one.
std::shared_ptr<Operand> PackedMatrix(DType type, const PackedLayout& layout) {
  const Operand rows(RowBytes(type, layout.in_width) * kPanelRows);
  auto packed = Take(layout.bytes());
  PackPanels(layout, type, rows.bytes(), 0, 1, packed->bytes());
  for (int64_t panel = 1; panel < layout.panel_count(); ++panel) {
    std::memcpy(packed->bytes() + panel * layout.panel_bytes, packed->bytes(),
                static_cast<size_t>(layout.panel_bytes));
  }
  return packed;
}

template <class Input>
PanelProduct<Input> DescribeProduct(const PackedLayout& layout, const Operand& weights,
                                    const Operand& in, const Operand& out, int64_t in_stride,
                                    int first_row, int rows) {
  PanelProduct<Input> product{};
  product.panels = weights.bytes();
  product.panel_bytes = layout.panel_bytes;
  product.panel_count = static_cast<int>(layout.panel_count());
  product.columns = static_cast<int>(layout.out_width);
  product.in_width = layout.in_width;
  product.in = reinterpret_cast<const Input*>(in.bytes()) + first_row * in_stride;
  product.in_stride = in_stride;
  product.rows = rows;
  product.out = out.floats() + first_row * layout.out_width;
  product.out_stride = layout.out_width;
  return product;
}

template <class Input, class Kernel>
std::function<void()> PrepareProduct(Kernel kernel, DType type, const ProductShape& shape,
                                     int64_t in_stride) {
  if (kernel == nullptr) return nullptr;
  const PackedLayout layout = ShapeLayout(type, shape);
  auto weights = PackedMatrix(type, layout);
  auto in = Take(shape.rows * in_stride * static_cast<int64_t>(sizeof(Input)));
  auto out = Take(shape.rows * layout.out_width * 4);
  return [=] {
    for (int row = 0; row < shape.rows; row += kTileRows) {
      kernel(DescribeProduct<Input>(layout, *weights, *in, *out, in_stride, row,
                                    std::min(kTileRows, shape.rows - row)));
    }
  };
}

KernelCase ProductCase(const char* operation, DType type, const ProductShape& shape) {
  const PackedLayout layout = ShapeLayout(type, shape);
  const bool is_float = IsFloatFormat(layout.format);
  KernelCase result;
  result.operation = operation;
  result.type = Info(type).name;
  result.shape = std::to_string(shape.rows) + " x " + std::to_string(layout.in_width) + " x " +
                 std::to_string(layout.out_width);
  const double ops = 2.0 * shape.rows * static_cast<double>(layout.out_width * layout.in_width);
  (is_float ? result.f32_ops : result.int8_ops) = ops;
  result.bytes = static_cast<double>(layout.bytes());
  result.from_cache = shape.out_width != 0;
  result.prepare = [=](const KernelTable& kernels) {
    const auto format = static_cast<size_t>(layout.format);
    return is_float
               ? PrepareProduct<float>(kernels.float_product[format], type, shape, layout.in_width)
               : PrepareProduct<ActivationBlock>(kernels.quantised_product[format], type, shape,
                                                 layout.in_width / kActivationBlock);
  };
  return result;
}

// --- Attention ---

struct AttentionShape {
  const char* name;
  int rows;
  int width;
  bool from_cache;  // the same keys again and again, as the row groups of a prompt read them
};

constexpr AttentionShape kAttentionShapes[] = {{"decode", 3, 64, false},
                                               {"prompt", 24, 64, true},
                                               {"decode", 4, 128, false},
                                               {"prompt", 32, 128, true}};
constexpr int kBlocks = kKvPartialKeys / kKvPageTokens;

// A partial's operands, and a ring of keys and values to read it from.
struct AttentionOperands {
  AttentionOperands(const AttentionShape& shape, DType type)
      : kv_bytes(2 * KvPartBytes(type, shape.width) * kBlocks),
        partials(shape.from_cache ? 1 : kMemoryBytes / kv_bytes),
        kv(kv_bytes * partials),
        queries(shape.rows * shape.width * 4),
        sums(shape.rows * shape.width * 4),
        states(static_cast<size_t>(shape.rows)),
        rows(static_cast<size_t>(shape.rows)),
        blocks(kBlocks) {
    for (size_t r = 0; r < rows.size(); ++r) {
      rows[r] = {queries.floats() + r * static_cast<size_t>(shape.width), 0, kKvPartialKeys};
    }
  }

  const int64_t kv_bytes;
  const int64_t partials;
  int64_t next = 0;
  Operand kv, queries, sums;
  std::vector<SoftmaxState> states;
  std::vector<AttentionRow> rows;
  std::vector<KeyBlock> blocks;
};

std::function<void()> PrepareAttention(const KernelTable& kernels, DType type,
                                       const AttentionShape& shape) {
  const auto kernel = kernels.attention_partial[static_cast<size_t>(type)];
  if (kernel == nullptr) return nullptr;
  auto operands = std::make_shared<AttentionOperands>(shape, type);
  return [=] {
    AttentionOperands& o = *operands;
    const std::byte* kv = o.kv.bytes() + o.next * o.kv_bytes;
    o.next = (o.next + 1) % o.partials;
    const int64_t half_page = o.kv_bytes / kBlocks / 2;
    for (int b = 0; b < kBlocks; ++b) {
      const std::byte* page = kv + b * 2 * half_page;
      o.blocks[static_cast<size_t>(b)] = {page, page + half_page, b};
    }
    kernel({.rows = o.rows.data(),
            .row_count = shape.rows,
            .blocks = o.blocks.data(),
            .block_count = kBlocks,
            .key_width = shape.width,
            .value_width = shape.width,
            .scale = 0.125f,
            .soft_cap = 0,
            .states = o.states.data(),
            .sums = o.sums.floats()});
  };
}

// Every table has what the scalar one has.
std::vector<DType> KvTypes() {
  std::vector<DType> types;
  for (int type = 0; type < kDTypeCount; ++type) {
    if (ScalarKernels().attention_partial[static_cast<size_t>(type)] != nullptr) {
      types.push_back(static_cast<DType>(type));
    }
  }
  return types;
}

KernelCase AttentionCase(DType type, const AttentionShape& shape) {
  KernelCase result;
  result.operation = "attention";
  result.type = Info(type).name;
  result.shape = std::string(shape.name) + " " + std::to_string(shape.rows) + " x " +
                 std::to_string(shape.width) + " x " + std::to_string(kKvPartialKeys);
  result.f32_ops = 4.0 * shape.rows * shape.width * kKvPartialKeys;
  result.bytes = 2.0 * static_cast<double>(KvPartBytes(type, shape.width)) * kBlocks;
  result.from_cache = shape.from_cache;
  result.prepare = [=](const KernelTable& kernels) {
    return PrepareAttention(kernels, type, shape);
  };
  return result;
}

// --- Row kernels ---

constexpr int64_t kRowWidth = 4096;
constexpr int kHeadWidth = 128;

// `run(kernels, a, b, out)`, of `inputs` rows of `width` floats.
template <class Run>
KernelCase RowCase(const char* operation, int inputs, int64_t width, Run run) {
  KernelCase result;
  result.operation = operation;
  result.type = "F32";
  result.shape = std::to_string(width);
  result.bytes = 4.0 * inputs * static_cast<double>(width);
  result.prepare = [=](const KernelTable& kernels) -> std::function<void()> {
    auto a = Take(width * 4);
    auto b = Take(width * 4);
    auto out = Take(width * 4);
    const KernelTable* table = &kernels;
    return [=] { run(*table, a->floats(), b->floats(), out->floats()); };
  };
  return result;
}

void AddRowCases(std::vector<KernelCase>* cases) {
  using K = const KernelTable&;
  using In = const float*;
  cases->push_back(RowCase("quantise_row", 1, kRowWidth, [](K k, In a, In, float* out) {
    k.quantise_row(a, kRowWidth, reinterpret_cast<ActivationBlock*>(out));
  }));
  cases->push_back(RowCase("quantise_row_fine", 1, kRowWidth, [](K k, In a, In, float* out) {
    auto* first = reinterpret_cast<ActivationBlock*>(out);
    k.quantise_row_fine(a, kRowWidth / 2, first, first + kRowWidth / 2 / kActivationBlock);
  }));
  cases->push_back(RowCase("rms_norm", 2, kRowWidth, [](K k, In a, In b, float* out) {
    k.rms_norm(a, b, 1e-5f, kRowWidth, out);
  }));
  cases->push_back(RowCase("silu_gate", 2, kRowWidth,
                           [](K k, In a, In b, float* out) { k.silu_gate(a, b, kRowWidth, out); }));
  cases->push_back(RowCase("gelu_tanh_gate", 2, kRowWidth, [](K k, In a, In b, float* out) {
    k.gelu_tanh_gate(a, b, kRowWidth, out);
  }));
  cases->push_back(RowCase("clamped_swiglu_gate", 2, kRowWidth, [](K k, In a, In b, float* out) {
    k.clamped_swiglu_gate(a, b, kRowWidth, out);
  }));
  cases->push_back(
      RowCase("add", 2, kRowWidth, [](K k, In a, In, float* out) { k.add(a, kRowWidth, out); }));
  cases->push_back(RowCase("scale", 1, kRowWidth,
                           [](K k, In, In, float* out) { k.scale(1.0f, kRowWidth, out); }));
  cases->push_back(RowCase("soft_cap", 1, kRowWidth,
                           [](K k, In, In, float* out) { k.soft_cap(30.0f, kRowWidth, out); }));
  cases->push_back(RowCase("add_scaled", 2, kRowWidth, [](K k, In a, In, float* out) {
    k.add_scaled(a, 0.5f, kRowWidth, out);
  }));
  cases->push_back(RowCase("merge_partial", 2, kHeadWidth, [](K k, In a, In, float* out) {
    SoftmaxState state = {1, 1};
    k.merge_partial({0.5f, 1}, a, kHeadWidth, &state, out);
  }));
  cases->push_back(RowCase("finish_rows", 1, kHeadWidth, [](K k, In a, In, float* out) {
    const SoftmaxState state = {1, 2};
    k.finish_rows(&state, a, 1, kHeadWidth, nullptr, out);
  }));
  cases->push_back(RowCase("rope_halves", 3, 64,
                           [](K k, In a, In b, float* out) { k.rope_halves(out, 32, a, b); }));
  cases->push_back(RowCase("rope_interleaved", 3, 64,
                           [](K k, In a, In b, float* out) { k.rope_interleaved(out, 32, a, b); }));
}

// One head of one token on its way into a page.
void AddStoreCases(DType type, std::vector<KernelCase>* cases) {
  const auto add = [&](const char* operation, auto store) {
    KernelCase result;
    result.operation = operation;
    result.type = Info(type).name;
    result.shape = std::to_string(kHeadWidth);
    result.bytes = 4.0 * kHeadWidth;
    result.prepare = [=](const KernelTable& kernels) -> std::function<void()> {
      auto in = Take(int64_t{4} * kHeadWidth);
      auto page = Take(KvPartBytes(type, kHeadWidth));
      const KernelTable* table = &kernels;
      return [=] { store(*table, in->floats(), page->bytes()); };
    };
    cases->push_back(std::move(result));
  };
  add("store_key", [type](const KernelTable& k, const float* in, std::byte* page) {
    k.store_key(in, kHeadWidth, type, 5, page);
  });
  add("store_value", [type](const KernelTable& k, const float* in, std::byte* page) {
    k.store_value(in, kHeadWidth, type, 5, page);
  });
}

}  // namespace

KernelCase MicroKernelCase(DType type) {
  return ProductCase("micro_kernel", type, kMicroKernelShape);
}

std::vector<KernelCase> KernelCases() {
  std::vector<KernelCase> cases;
  for (int type = 0; type < kDTypeCount; ++type) {
    cases.push_back(MicroKernelCase(static_cast<DType>(type)));
    for (const ProductShape& shape : kProductShapes) {
      cases.push_back(ProductCase("product", static_cast<DType>(type), shape));
    }
  }
  for (KernelCase& grouped : GroupedCases()) cases.push_back(std::move(grouped));
  for (const DType type : KvTypes()) {
    for (const AttentionShape& shape : kAttentionShapes) {
      cases.push_back(AttentionCase(type, shape));
    }
  }
  AddRowCases(&cases);
  for (const DType type : KvTypes()) AddStoreCases(type, &cases);
  return cases;
}

}  // namespace remontoir
