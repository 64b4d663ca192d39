// Puts the tables through SIMDe together; install.h names their kernels in this file.
#include "tests/support/kernel_tables.h"

#include "kernels/install.h"

#ifndef REMONTOIR_THROUGH_SIMDE
#error "install.h would name the processor's own kernels"
#endif

namespace remontoir {
namespace {

KernelTable MakeAvxVnni() {
  KernelTable table = *Avx2Kernels();
  table.name = "avxvnni through SIMDe";
  InstallAvxVnniProducts(&table);
  return table;
}

KernelTable MakeAvx512() {
  KernelTable table = *Avx2Kernels();
  table.name = "avx512 through SIMDe";
  InstallAvx512Products(&table);
  InstallAvx512Attention(&table);
  InstallAvx512Rows(&table);
  InstallAvx512Sparse(&table);
  return table;
}

}  // namespace

const KernelTable* AvxVnniKernelsThroughSimde() {
  if (Avx2Kernels() == nullptr) return nullptr;
  static const KernelTable table = MakeAvxVnni();
  return &table;
}

const KernelTable* Avx512KernelsThroughSimde() {
  if (Avx2Kernels() == nullptr) return nullptr;
  static const KernelTable table = MakeAvx512();
  return &table;
}

std::vector<const KernelTable*> RunnableTables() {
  std::vector<const KernelTable*> tables = {&ScalarKernels()};
  for (const KernelTable* table : {Avx2Kernels(), AvxVnniKernels(), Avx512Kernels(),
                                   AvxVnniKernelsThroughSimde(), Avx512KernelsThroughSimde()}) {
    if (table != nullptr) tables.push_back(table);
  }
  return tables;
}

}  // namespace remontoir
