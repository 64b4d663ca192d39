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
  InstallScalarSparse(&table);
  return table;
}

KernelTable MakeAvx2() {
  KernelTable table = MakeScalar();
  table.name = "avx2";
  InstallAvx2Products(&table);
  InstallAvx2Attention(&table);
  InstallAvx2Rows(&table);
  InstallAvx2Sparse(&table);
  return table;
}

KernelTable MakeAvxVnni(bool vex) {
  KernelTable table = MakeAvx2();
  table.name = "avxvnni";
  if (vex) {
    InstallAvxVnniProducts(&table);
  } else {
    InstallEvexVnniProducts(&table);
  }
  return table;
}

KernelTable MakeAvx512() {
  KernelTable table = MakeAvx2();
  table.name = "avx512";
  InstallAvx512Products(&table);
  InstallAvx512Attention(&table);
  InstallAvx512Rows(&table);
  InstallAvx512Sparse(&table);
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

bool HasAvxVnni() {
  constexpr unsigned kAvxVnniBit = 1U << 4;
  KernelTable unused{};
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return HasAvx2() && InstallAvxVnniProducts(&unused) &&
         __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnniBit) != 0;
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0;
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

const KernelTable* AvxVnniKernels() {
  const bool vex = HasAvxVnni();
  if (!vex && !HasAvx512()) return nullptr;
  static const KernelTable table = MakeAvxVnni(vex);
  return &table;
}

const KernelTable* Avx512Kernels() {
  if (!HasAvx512()) return nullptr;
  static const KernelTable table = MakeAvx512();
  return &table;
}

const KernelTable& BestKernels() {
  if (const KernelTable* avx512 = Avx512Kernels()) return *avx512;
  if (const KernelTable* avxvnni = AvxVnniKernels()) return *avxvnni;
  if (const KernelTable* avx2 = Avx2Kernels()) return *avx2;
  return ScalarKernels();
}

const KernelTable* KernelsByName(std::string_view name) {
  for (const KernelTable* table :
       {&ScalarKernels(), Avx2Kernels(), AvxVnniKernels(), Avx512Kernels()}) {
    if (table != nullptr && table->name == name) return table;
  }
  return nullptr;
}

}  // namespace remontoir
