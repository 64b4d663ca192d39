// Walks the segments of all loaded objects.
#include "base/program_memory.h"

#if defined(__linux__)
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#endif

namespace remontoir {

#if defined(__linux__)

namespace {

// Not in the headers of older C libraries.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

// Whole pages of [begin, end); failures leave them to be faulted in when they are needed.
void Populate(uintptr_t begin, uintptr_t end, int advice) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = begin / page * page;
  if (end <= first) return;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader tells addresses as numbers.
  madvise(reinterpret_cast<void*>(first), (end - first + page - 1) / page * page, advice);
}

int PopulateObject(dl_phdr_info* object, size_t /*size*/, void* /*context*/) {
  // What the loader has written and then closed to writing.
  uintptr_t closed_end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type == PT_GNU_RELRO) closed_end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
  }
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    const uintptr_t end = begin + part.p_memsz;
    Populate(begin, end, kPopulateRead);
    if ((part.p_flags & PF_W) == 0) continue;
    const bool closed = begin < closed_end && closed_end <= end;
    Populate(closed ? closed_end : begin, end, kPopulateWrite);
  }
  return 0;
}

}  // namespace

void PrefaultProgram() { dl_iterate_phdr(&PopulateObject, nullptr); }

#else

void PrefaultProgram() {}

#endif

}  // namespace remontoir
