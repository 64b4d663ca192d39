// Puts the tables together and picks by what the processor has.
#include "kernels/kernel_table.h"

#include <cpuid.h>

#include "kernels/install.h"

namespace remontoir {
namespace {

KernelTable MakeScalar() {
  KernelTable table{};
  table.name = "scalar";
  InstallScalarProducts(&table);
  InstallScalarAttention(&table);
  InstallScalarRows(&table);
  return table;
}

KernelTable MakeAvx2() {
  KernelTable table = MakeScalar();
  table.name = "avx2";
  InstallAvx2Products(&table);
  InstallAvx2Attention(&table);
  InstallAvx2Rows(&table);
  return table;
}

// Whether the processor, and the system that saves its registers, know AVX2, FMA and F16C.
bool HasAvx2() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_F16C) == 0) return false;
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

}  // namespace

const KernelTable& ScalarKernels() {
  static const KernelTable table = MakeScalar();
  return table;
}

const KernelTable* Avx2Kernels() {
  if (!HasAvx2()) return nullptr;
  static const KernelTable table = MakeAvx2();
  return &table;
}

const KernelTable& BestKernels() {
  const KernelTable* avx2 = Avx2Kernels();
  return avx2 != nullptr ? *avx2 : ScalarKernels();
}

const KernelTable* KernelsByName(std::string_view name) {
  if (name == ScalarKernels().name) return &ScalarKernels();
  const KernelTable* avx2 = Avx2Kernels();
  return avx2 != nullptr && name == avx2->name ? avx2 : nullptr;
}

}  // namespace remontoir
