// Puts the tables together and picks by what the processor has.
#include "kernels/kernel_table.h"

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

}  // namespace

const KernelTable& ScalarKernels() {
  static const KernelTable table = MakeScalar();
  return table;
}

const KernelTable* Avx2Kernels() { return nullptr; }

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
