// How the kernel files fill a table: each sets the entries that it implements.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/words_namespace.h"

namespace remontoir {

void InstallScalarProducts(KernelTable* table);
void InstallScalarAttention(KernelTable* table);
void InstallScalarRows(KernelTable* table);
void InstallScalarSparse(KernelTable* table);

void InstallAvx2Products(KernelTable* table);
void InstallAvx2Attention(KernelTable* table);
void InstallAvx2Rows(KernelTable* table);
void InstallAvx2Sparse(KernelTable* table);

void InstallEvexVnniProducts(KernelTable* table);

inline namespace REM_WORDS {

// False where the compiler that built this didn't know AVX-VNNI.
bool InstallAvxVnniProducts(KernelTable* table);

void InstallAvx512Products(KernelTable* table);
void InstallAvx512Attention(KernelTable* table);
void InstallAvx512Rows(KernelTable* table);
void InstallAvx512Sparse(KernelTable* table);

}  // namespace REM_WORDS

}  // namespace remontoir
