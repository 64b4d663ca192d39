// Facts about the kernels between products and attention: same bits everywhere, accuracy, edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/kernel_table.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

// Deviates over many magnitudes, with zeros and values at which functions turn.
std::vector<float> Awkward(size_t count, uint64_t seed) {
  std::vector<float> values = Normals(count, seed);
  for (size_t i = 0; i < count; ++i) {
    values[i] *= std::pow(10.0F, static_cast<float>(i % 9) - 5);
    if (i % 13 == 3) values[i] = 0;
    if (i % 17 == 5) values[i] = -80.0F - static_cast<float>(i % 20);
    if (i % 19 == 7) values[i] = 80.0F + static_cast<float>(i % 20);
    if (i % 23 == 1) values[i] = i % 2 == 0 ? 1e-40F : 0.625F;
  }
  return values;
}

// An operation on a row, seen as a function of two inputs; and its exact value.
struct RowOperation {
  const char* name;
  std::vector<float> (*run)(const KernelTable&, const std::vector<float>& a,
                            const std::vector<float>& b);
  double (*exact)(double a, double b);
  double relative_error;  // of the exact value
  double absolute_error;
};

int64_t Size(const std::vector<float>& values) { return static_cast<int64_t>(values.size()); }

const RowOperation kOperations[] = {
    {"silu_gate",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>& b) {
       std::vector<float> out(a.size());
       t.silu_gate(a.data(), b.data(), Size(a), out.data());
       return out;
     },
     [](double a, double b) { return a / (1 + std::exp(-a)) * b; }, 1e-6, 1e-34},
    {"gelu_tanh_gate",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>& b) {
       std::vector<float> out(a.size());
       t.gelu_tanh_gate(a.data(), b.data(), Size(a), out.data());
       return out;
     },
     [](double a, double b) {
       return 0.5 * a *
              (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (a + 0.044715 * a * a * a))) * b;
     },
     // Far in the negative tail e^(-2u) magnifies the rounding of u.
     3e-5, 1e-10},
    {"clamped_swiglu_gate",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>& b) {
       std::vector<float> out(a.size());
       t.clamped_swiglu_gate(a.data(), b.data(), Size(a), out.data());
       return out;
     },
     [](double a, double b) {
       const double gate = std::min(a, 7.0);
       return gate / (1 + std::exp(-1.702 * gate)) * (std::clamp(b, -7.0, 7.0) + 1);
     },
     // Rounding 1.702 g moves e^(-1.702 g) by as many parts as the exponent has units.
     2e-5, 1e-8},
    {"add",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>& b) {
       std::vector<float> out = a;
       t.add(b.data(), Size(a), out.data());
       return out;
     },
     [](double a, double b) { return a + b; }, 6e-8, 1e-45},
    {"scale",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>&) {
       std::vector<float> out = a;
       t.scale(0.3125F, Size(a), out.data());
       return out;
     },
     [](double a, double) { return a * 0.3125; }, 6e-8, 1e-45},
    {"soft_cap",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>&) {
       std::vector<float> out = a;
       t.soft_cap(30, Size(a), out.data());
       return out;
     },
     [](double a, double) { return 30 * std::tanh(a / 30); }, 4e-7, 2e-44},
    {"add_scaled",
     [](const KernelTable& t, const std::vector<float>& a, const std::vector<float>& b) {
       std::vector<float> out = a;
       t.add_scaled(b.data(), 0.75F, Size(a), out.data());
       return out;
     },
     [](double a, double b) { return a + 0.75 * b; }, 6e-8, 1e-45},
};

class RowOperations : public testing::TestWithParam<RowOperation> {};

TEST_P(RowOperations, HaveTheSameBitsInEveryTable) {
  for (const size_t width : {1, 7, 8, 31, 576}) {
    const auto a = Awkward(width, 1);
    const auto b = Awkward(width, 2);
    const auto expected = Bits(GetParam().run(ScalarKernels(), a, b));
    for (const KernelTable* table : RunnableTables()) {
      EXPECT_EQ(Bits(GetParam().run(*table, a, b)), expected) << table->name << " " << width;
    }
  }
}

TEST_P(RowOperations, AreAccurate) {
  const auto a = Awkward(5000, 3);
  const auto b = Normals(5000, 4);
  const auto out = GetParam().run(BestKernels(), a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const double exact = GetParam().exact(static_cast<double>(a[i]), static_cast<double>(b[i]));
    ASSERT_NEAR(out[i], exact,
                GetParam().relative_error * std::fabs(exact) + GetParam().absolute_error)
        << "of " << a[i] << " and " << b[i];
  }
}

TEST_P(RowOperations, LetNotANumberThrough) {
  std::vector<float> a(16, NAN);
  const std::vector<float> b(16, 1.0F);
  for (const KernelTable* table : RunnableTables()) {
    for (const float value : GetParam().run(*table, a, b)) EXPECT_TRUE(std::isnan(value));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, RowOperations, testing::ValuesIn(kOperations),
                         [](const auto& o) { return std::string(o.param.name); });

TEST(RmsNorm, IsAccurateAndTheSameInEveryTable) {
  for (const size_t width : {1, 15, 16, 37, 64, 576}) {
    const auto in = Normals(width, 1);
    const auto weight = Normals(width, 2);
    std::vector<float> expected(width);
    ScalarKernels().rms_norm(in.data(), weight.data(), 1e-5F, Size(in), expected.data());
    double squares = 0;
    for (const float x : in) squares += static_cast<double>(x) * static_cast<double>(x);
    const double norm = std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (size_t i = 0; i < width; ++i) {
      const double exact = static_cast<double>(in[i]) / norm * static_cast<double>(weight[i]);
      ASSERT_NEAR(expected[i], exact, 3e-7 * std::fabs(exact));
    }
    for (const KernelTable* table : RunnableTables()) {
      std::vector<float> in_place = in;
      table->rms_norm(in_place.data(), weight.data(), 1e-5F, Size(in), in_place.data());
      EXPECT_EQ(Bits(in_place), Bits(expected)) << table->name << " " << width;
    }
  }
}

TEST(Rope, RotatesPairsAndLeavesTheRest) {
  for (const int pairs : {1, 3, 8, 13, 32}) {
    const auto count = static_cast<size_t>(2 * pairs + 5);
    const auto head = Normals(count, 1);
    const auto angles = Normals(static_cast<size_t>(pairs), 2);
    std::vector<float> cos;
    std::vector<float> sin;
    for (const float angle : angles) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    for (const bool halves : {false, true}) {
      const auto rotated = [&](const KernelTable& table) {
        std::vector<float> out = head;
        (halves ? table.rope_halves : table.rope_interleaved)(out.data(), pairs, cos.data(),
                                                              sin.data());
        return out;
      };
      const auto expected = rotated(ScalarKernels());
      for (size_t i = 0; i < angles.size(); ++i) {
        const size_t x = halves ? i : 2 * i;
        const size_t y = halves ? i + angles.size() : 2 * i + 1;
        EXPECT_NEAR(expected[x], head[x] * cos[i] - head[y] * sin[i], 1e-6);
        EXPECT_NEAR(expected[y], head[y] * cos[i] + head[x] * sin[i], 1e-6);
      }
      for (size_t i = 2 * angles.size(); i < count; ++i) EXPECT_EQ(expected[i], head[i]);
      for (const KernelTable* table : RunnableTables()) {
        EXPECT_EQ(Bits(rotated(*table)), Bits(expected)) << table->name << " " << pairs;
      }
    }
  }
}

class Quantise : public testing::Test {
 protected:
  static std::vector<ActivationBlock> Blocks(const KernelTable& table,
                                             const std::vector<float>& in) {
    std::vector<ActivationBlock> blocks(in.size() / kActivationBlock);
    table.quantise_row(in.data(), Size(in), blocks.data());
    return blocks;
  }
};

TEST_F(Quantise, IsTheSameInEveryTable) {
  auto in = Awkward(4096, 9);
  in[40] = NAN;
  in[100] = kInf;
  in[130] = -std::numeric_limits<float>::max();
  std::fill_n(in.begin() + 160, 32, 1e-39F);
  std::fill_n(in.begin() + 192, 32, -0.0F);
  const auto expected = Blocks(ScalarKernels(), in);
  for (const KernelTable* table : RunnableTables()) {
    const auto blocks = Blocks(*table, in);
    EXPECT_EQ(std::memcmp(blocks.data(), expected.data(), expected.size() * sizeof(expected[0])), 0)
        << table->name;
  }
}

TEST_F(Quantise, IsWithinHalfAStepAndSumsUp) {
  const auto in = Normals(4096, 10);
  const auto blocks = Blocks(BestKernels(), in);
  for (size_t b = 0; b < blocks.size(); ++b) {
    float sums[2] = {};
    for (size_t i = 0; i < 32; ++i) {
      const auto q = static_cast<float>(blocks[b].q[i]);
      EXPECT_NEAR(q * blocks[b].scale, in[b * 32 + i], 0.5001F * blocks[b].scale);
      sums[i / 16] += q;
    }
    EXPECT_EQ(blocks[b].sum_low, sums[0]);
    EXPECT_EQ(blocks[b].sum_high, sums[1]);
    EXPECT_EQ(blocks[b].sum, sums[0] + sums[1]);
  }
}

TEST_F(Quantise, MakesABlockWithoutEndNotANumber) {
  for (const float bad : {NAN, kInf, -kInf}) {
    std::vector<float> in(64, 1.0F);
    in[33] = bad;
    for (const KernelTable* table : RunnableTables()) {
      const auto blocks = Blocks(*table, in);
      EXPECT_FALSE(std::isnan(blocks[0].scale));
      EXPECT_TRUE(std::isnan(blocks[1].scale));
      EXPECT_EQ(blocks[1].sum, 0);
    }
  }
}

TEST_F(Quantise, FineFormAddsWhatTheFirstLeavesOver) {
  std::vector<float> in = Normals(32 * 40, 12);
  for (size_t b = 0; b < 40; ++b) in[32 * b + b % 32] *= 50;  // large values drown the others
  std::fill_n(in.begin() + 96, 32, 0.0F);
  in[200] = kInf;
  const auto fine = [&](const KernelTable& table) {
    std::vector<ActivationBlock> blocks(80);
    table.quantise_row_fine(in.data(), Size(in), blocks.data(), blocks.data() + 40);
    return blocks;
  };
  const auto expected = fine(ScalarKernels());
  const auto first = Blocks(ScalarKernels(), in);
  EXPECT_EQ(std::memcmp(expected.data(), first.data(), 40 * sizeof(ActivationBlock)), 0);
  for (size_t i = 0; i < in.size(); ++i) {
    const ActivationBlock& a = expected[i / 32];
    const ActivationBlock& b = expected[40 + i / 32];
    if (i / 32 == 200 / 32) {
      EXPECT_TRUE(std::isnan(a.scale) && std::isnan(b.scale));
      continue;
    }
    const float sum = a.scale * a.q[i % 32] + b.scale * b.q[i % 32];
    EXPECT_NEAR(sum, in[i], a.scale / 2 / 127 / 2 * 1.01F) << i;
  }
  for (const KernelTable* table : RunnableTables()) {
    const auto blocks = fine(*table);
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (std::isnan(expected[b].scale)) {
        EXPECT_TRUE(std::isnan(blocks[b].scale)) << table->name;
      } else {
        EXPECT_EQ(std::memcmp(&blocks[b], &expected[b], sizeof(ActivationBlock)), 0)
            << table->name << " " << b;
      }
    }
  }
}

TEST(KernelsByName, KnowsTheTablesThatRunHere) {
  EXPECT_EQ(KernelsByName("scalar"), &ScalarKernels());
  EXPECT_EQ(KernelsByName("avx2"), Avx2Kernels());
  EXPECT_EQ(KernelsByName("avxvnni"), AvxVnniKernels());
  EXPECT_EQ(KernelsByName("avx512"), Avx512Kernels());
  EXPECT_EQ(KernelsByName("abacus"), nullptr);
}

}  // namespace
}  // namespace remontoir
