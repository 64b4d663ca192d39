// The (operation, type, shape) table of the kernel bench.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace remontoir {

// Operations of one shape that are set beside each other.
inline constexpr const char* kDenseProduct = "dense_product";
inline constexpr const char* kGroupedProduct = "grouped_product";

struct KernelCase {
  std::string operation;
  std::string type;
  std::string shape;
  double int8_ops = 0;
  double f32_ops = 0;
  double bytes = 0;        // read
  bool from_cache = true;  // else from memory
  // Makes the operands and returns the thing to time; null where the table has no such kernel.
  std::function<std::function<void()>(const KernelTable&)> prepare;

  std::string Name() const { return operation + " " + type + " " + shape; }
};

// A product whose operands stay in the nearest caches: the micro-kernel's own rate, which products
// of whole matrices are judged by.
KernelCase MicroKernelCase(DType type);

// Products of every weight type, attention of every KV type, the row kernels.
std::vector<KernelCase> KernelCases();

}  // namespace remontoir
