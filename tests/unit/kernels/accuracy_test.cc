// Every kernel but attention against double precision, on inputs made to be hard, within bounds
// that are derived from its roundings.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/dequantise.h"
#include "kernels/math_scalar.h"
#include "kernels/weight_block.h"
#include "tests/support/bits.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/kernel_tables.h"
#include "tests/support/panel_formats.h"

namespace remontoir {
namespace {

constexpr double kUnit = 0x1p-24;  // rounding to float32 changes a value by at most this part
constexpr double kTiniest = 0x1p-149;

// --- Inputs ---

struct Inputs {
  const char* name;
  std::vector<float> (*make)(size_t count);
};

std::vector<float> Scaled(size_t count, float (*factor)(size_t i)) {
  auto values = Normals(count, 31);
  for (size_t i = 0; i < count; ++i) values[i] *= factor(i);
  return values;
}

const Inputs kInputs[] = {
    {"normal", [](size_t n) { return Normals(n, 30); }},
    {"large", [](size_t n) { return Scaled(n, [](size_t) { return 1e15F; }); }},
    {"small", [](size_t n) { return Scaled(n, [](size_t) { return 1e-15F; }); }},
    {"of_every_size",
     [](size_t n) {
       return Scaled(n, [](size_t i) { return std::pow(10.0F, static_cast<float>(i % 17) - 8); });
     }},
    {"blocks_of_every_size",
     [](size_t n) {
       return Scaled(n,
                     [](size_t i) { return std::pow(10.0F, static_cast<float>(i / 32 % 13) - 6); });
     }},
    // Each value's negative follows it: sums of neighbours are small.
    {"cancelling",
     [](size_t n) {
       auto values = Normals(n, 32);
       for (size_t i = 1; i < n; i += 2) values[i] = -values[i - 1] * (1 + 1e-6F);
       return values;
     }},
    {"one_value_outweighs",
     [](size_t n) { return Scaled(n, [](size_t i) { return i % 64 == 5 ? 1e4F : 1e-4F; }); }},
    {"equal", [](size_t n) { return std::vector<float>(n, 0.7F); }},
};

std::string NameOf(const testing::TestParamInfo<Inputs>& inputs) { return inputs.param.name; }

// --- Products ---

constexpr int kRows = 3;
constexpr int64_t kOutWidth = 21;

class ProductAccuracy : public testing::TestWithParam<Inputs> {
 protected:
  template <class Input>
  static std::vector<float> Multiply(const PackedLayout& layout,
                                     const std::vector<std::byte>& packed,
                                     const std::vector<Input>& in) {
    GuardedArrays arrays(GuardSide::kAtBegin);  // aligned
    std::vector<float> out(static_cast<size_t>(kRows * layout.out_width));
    RunProduct(BestKernels(), layout.format,
               PanelProduct<Input>{.panels = arrays.In(packed),
                                   .panel_bytes = layout.panel_bytes,
                                   .panel_count = static_cast<int>(layout.panel_count()),
                                   .columns = static_cast<int>(layout.out_width),
                                   .in_width = layout.in_width,
                                   .in = in.data(),
                                   .in_stride = std::ssize(in) / kRows,
                                   .row_index = nullptr,
                                   .rows = kRows,
                                   .out = out.data(),
                                   .out_stride = layout.out_width});
    return out;
  }

  // A chain of in_width multiply-adds: one rounding each, of a sum that the magnitudes bound.
  static void ExpectFloat(DType type, int64_t in_width, const std::vector<std::byte>& weights,
                          const std::vector<float>& in) {
    const PackedLayout layout = PlanPacking(type, kOutWidth, in_width, true);
    const auto out = Multiply(layout, Packed(layout, type, weights), in);
    std::vector<float> dense(static_cast<size_t>(kOutWidth * in_width));
    DequantiseRow(type, weights.data(), kOutWidth * in_width, dense.data());
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kOutWidth; ++c) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t k = 0; k < in_width; ++k) {
          const double term = double{in[static_cast<size_t>(r * in_width + k)]} *
                              double{dense[static_cast<size_t>(c * in_width + k)]};
          sum += term;
          magnitude += std::fabs(term);
        }
        const auto steps = static_cast<double>(in_width);
        ASSERT_NEAR(double{out[static_cast<size_t>(r * kOutWidth + c)]}, sum,
                    1.001 * steps * (kUnit * magnitude + kTiniest))
            << Info(type).name << " row " << r << ", column " << c;
      }
    }
  }

  // A block's whole numbers are exact; its scales and minimums take at most four roundings, and the
  // chain over blocks one each, of sums that the blocks' magnitudes bound.
  static void ExpectQuantised(DType type, int64_t in_width, const std::vector<std::byte>& weights,
                              const std::vector<float>& in) {
    const PackedLayout layout = PlanPacking(type, kOutWidth, in_width, false);
    const auto blocks = QuantisedRows(in);
    const auto out = Multiply(layout, Packed(layout, type, weights), blocks);
    const int64_t row_blocks = in_width / kActivationBlock;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kOutWidth; ++c) {
        const std::byte* row = weights.data() + c * RowBytes(type, in_width);
        double sum = 0;
        double magnitude = 0;
        for (int64_t b = 0; b < row_blocks; ++b) {
          AddBlock(type, row, b, blocks[static_cast<size_t>(r * row_blocks + b)], &sum, &magnitude);
        }
        const auto steps = static_cast<double>(4 + row_blocks);
        ASSERT_NEAR(double{out[static_cast<size_t>(r * kOutWidth + c)]}, sum,
                    1.001 * steps * (kUnit * magnitude + kTiniest))
            << Info(type).name << " row " << r << ", column " << c;
      }
    }
  }

 private:
  static void AddBlock(DType type, const std::byte* row, int64_t index, const ActivationBlock& in,
                       double* sum, double* magnitude) {
    WeightBlock weights;
    DecodeWeightBlock(type, row, index, &weights);
    for (size_t half = 0; half < 2; ++half) {
      int64_t products = 0;
      int64_t activations = 0;
      for (size_t i = 16 * half; i < 16 * (half + 1); ++i) {
        products += int64_t{weights.q[i]} * in.q[i];
        activations += in.q[i];
      }
      const double scaled = double{weights.scale[half]} * static_cast<double>(products);
      const double constant = double{weights.minimum[half]} * static_cast<double>(activations);
      *sum += double{in.scale} * (scaled + constant);
      *magnitude += double{in.scale} * (std::fabs(scaled) + std::fabs(constant));
    }
  }
};

TEST_P(ProductAccuracy, IsWithinItsBoundOfDoublePrecision) {
  for (const DType type : kAllTypes) {
    const bool quantised = Info(type).block_elements > 1;
    const int64_t in_width = quantised ? 768 : 777;
    const auto weights = RandomWeights(type, kOutWidth * in_width, 33);
    const auto in = GetParam().make(static_cast<size_t>(kRows * in_width));
    ExpectFloat(type, in_width, weights, in);
    if (quantised) ExpectQuantised(type, in_width, weights, in);
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, ProductAccuracy, testing::ValuesIn(kInputs), NameOf);

// --- Rows ---

class RowAccuracy : public testing::TestWithParam<Inputs> {};

// Half a step for rounding to a whole number; 127 times three roundings (of 127 / largest, of the
// product with it, of the scale) before and after.
TEST_P(RowAccuracy, OfQuantisedValuesIsHalfAStep) {
  const auto in = GetParam().make(4096);
  std::vector<ActivationBlock> blocks(in.size() / kActivationBlock);
  BestKernels().quantise_row(in.data(), std::ssize(in), blocks.data());
  for (size_t i = 0; i < in.size(); ++i) {
    const ActivationBlock& block = blocks[i / kActivationBlock];
    const double value = double{block.scale} * block.q[i % kActivationBlock];
    ASSERT_NEAR(value, double{in[i]}, (0.5 + 127 * 3.001 * kUnit) * double{block.scale}) << i;
  }
}

// The sum of squares: all positive, width / 16 roundings in a lane and 4 when lanes are folded; its
// root halves them. The mean, epsilon, root, inverse and two products: 5 more.
TEST_P(RowAccuracy, OfRmsNormFollowsFromTheSumOfSquares) {
  for (const size_t width : {1, 17, 576, 4096}) {
    for (const float epsilon : {1e-6F, 1e-5F}) {
      const auto in = GetParam().make(width);
      const auto weight = Normals(width, 41);
      std::vector<float> out(width);
      BestKernels().rms_norm(in.data(), weight.data(), epsilon, std::ssize(in), out.data());
      double squares = 0;
      for (const float x : in) squares += double{x} * double{x};
      const auto count = static_cast<double>(width);
      const double norm = std::sqrt(squares / count + double{epsilon});
      const double error = 1.001 * kUnit * ((count / 16 + 5) / 2 + 5);
      for (size_t i = 0; i < width; ++i) {
        const double exact = double{in[i]} / norm * double{weight[i]};
        ASSERT_NEAR(double{out[i]}, exact, error * std::fabs(exact) + kTiniest)
            << width << ", " << i;
      }
    }
  }
}

// A product, and one rounding of the multiply-add: where x cos and y sin nearly cancel, too.
TEST_P(RowAccuracy, OfRopeIsThatOfAProductAndASum) {
  constexpr int kPairs = 300;
  auto head = GetParam().make(2 * kPairs);
  std::vector<float> cos(kPairs);
  std::vector<float> sin(kPairs);
  for (size_t i = 0; i < kPairs; ++i) {
    const auto angle = static_cast<double>(i * i) * 0.37;
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
    if (i % 3 == 0 && sin[i] != 0) head[2 * i + 1] = head[2 * i] * cos[i] / sin[i];
  }
  auto out = head;
  BestKernels().rope_interleaved(out.data(), kPairs, cos.data(), sin.data());
  for (size_t i = 0; i < kPairs; ++i) {
    const double x = head[2 * i];
    const double y = head[2 * i + 1];
    const double new_x = x * double{cos[i]} - y * double{sin[i]};
    const double new_y = y * double{cos[i]} + x * double{sin[i]};
    const auto bound = [](double product, double result) {
      return 1.001 * kUnit * (std::fabs(product) + std::fabs(result)) + kTiniest;
    };
    ASSERT_NEAR(double{out[2 * i]}, new_x, bound(y * double{sin[i]}, new_x)) << i;
    ASSERT_NEAR(double{out[2 * i + 1]}, new_y, bound(x * double{sin[i]}, new_y)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, RowAccuracy, testing::ValuesIn(kInputs), NameOf);

// --- Functions of one value ---

// Values of every exponent and both signs whose magnitudes lie in [least, most]; ascending bits.
std::vector<float> Sweep(float least, float most) {
  std::vector<float> values;
  for (auto bits = std::bit_cast<uint32_t>(least); bits <= std::bit_cast<uint32_t>(most);
       bits += 997) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-values.back());
  }
  return values;
}

// A function of one value, its exact form, and how far apart they may be: `ulps` units in the last
// place of the exact result, where that is no subnormal number.
struct Function {
  const char* name;
  float (*run)(float x);
  double (*exact)(double x);
  double ulps;
  float least;
  float most;
};

const Function kFunctions[] = {
    {"Exp2", scalar::Exp2, [](double x) { return std::exp2(x); }, 1.5, 1e-10F, 127.49F},
    {"Exp", scalar::Exp, [](double x) { return std::exp(x); }, 2, 1e-10F, 88.3F},
    // Near 1 the result is 1 - 2 / (e^2x + 1), of whose second term little is left: 2.5 ulps. Below
    // 0.625 one multiply-add ends the polynomial.
    {"Tanh", scalar::Tanh, [](double x) { return std::tanh(x); }, 2.5, 1e-20F, 100},
};

class Functions : public testing::TestWithParam<Function> {};

TEST_P(Functions, AreWithinTheirUlps) {
  double worst = 0;
  for (const float x : Sweep(GetParam().least, GetParam().most)) {
    const double exact = GetParam().exact(double{x});
    if (std::fabs(exact) < double{std::numeric_limits<float>::min()}) continue;
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    const double error = std::fabs(double{GetParam().run(x)} - exact) / ulp;
    worst = std::max(worst, error);
    ASSERT_LE(error, GetParam().ulps) << "of " << x;
  }
  RecordProperty("ulps", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Math, Functions, testing::ValuesIn(kFunctions),
                         [](const auto& f) { return std::string(f.param.name); });

// What a table's kernel makes of each value, and a bound of its distance from the exact result.
struct Gate {
  const char* name;
  void (*run)(const KernelTable& table, const std::vector<float>& in, std::vector<float>* out);
  double (*exact)(double x);
  double (*units)(double x);  // relative error, in units of kUnit
  double absolute;
};

double GeluExponent(double x) {
  return -2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

// Where e^y has become infinite in float32, from y = 88.4 on, results are 0: the exact ones are
// below 100 * e^-88.
constexpr double kFlushed = 1e-36;

const Gate kGates[] = {
    // exp (4, of which the sum keeps a part), the sum, the quotient, the product with `up`.
    {"silu_gate",
     [](const KernelTable& t, const std::vector<float>& in, std::vector<float>* out) {
       const std::vector<float> ones(in.size(), 1.0F);
       t.silu_gate(in.data(), ones.data(), std::ssize(in), out->data());
     },
     [](double x) { return x / (1 + std::exp(-x)); }, [](double) { return 7.0; }, kFlushed},
    // The same, and before it the exponent's own error: two constants and three roundings, that
    // e^y / (1 + e^y) of the result feels.
    {"gelu_tanh_gate",
     [](const KernelTable& t, const std::vector<float>& in, std::vector<float>* out) {
       const std::vector<float> ones(in.size(), 1.0F);
       t.gelu_tanh_gate(in.data(), ones.data(), std::ssize(in), out->data());
     },
     [](double x) { return x / (1 + std::exp(GeluExponent(x))); },
     [](double x) {
       const double y = GeluExponent(x);
       return 7 + 5 * std::fabs(y) / (1 + std::exp(-y));
     },
     kFlushed},
    // tanh (2.5 ulps are 5), 1 / cap, the products with that and with cap.
    {"soft_cap",
     [](const KernelTable& t, const std::vector<float>& in, std::vector<float>* out) {
       *out = in;
       t.soft_cap(30, std::ssize(in), out->data());
     },
     [](double x) { return 30 * std::tanh(x / 30); }, [](double) { return 8.0; }, 32 * kTiniest},
};

class Gates : public testing::TestWithParam<Gate> {};

TEST_P(Gates, AreWithinTheirBoundsInEveryTableWithTheSameBits) {
  const auto in = Sweep(1e-30F, 1e4F);
  std::vector<float> expected(in.size());
  GetParam().run(ScalarKernels(), in, &expected);
  for (size_t i = 0; i < in.size(); ++i) {
    const double exact = GetParam().exact(double{in[i]});
    const double relative = 1.001 * kUnit * GetParam().units(double{in[i]});
    ASSERT_NEAR(double{expected[i]}, exact, relative * std::fabs(exact) + GetParam().absolute)
        << "of " << in[i];
  }
  for (const KernelTable* table : RunnableTables()) {
    std::vector<float> out(in.size());
    GetParam().run(*table, in, &out);
    const auto wanted = BitsOf(expected);
    const auto bits = BitsOf(out);
    const auto differ = std::mismatch(bits.begin(), bits.end(), wanted.begin()).first;
    EXPECT_EQ(differ, bits.end()) << table->name << " of "
                                  << in[static_cast<size_t>(differ - bits.begin()) % in.size()];
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Gates, testing::ValuesIn(kGates),
                         [](const auto& gate) { return std::string(gate.param.name); });

}  // namespace
}  // namespace remontoir
