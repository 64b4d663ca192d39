// Faults and allocations are counted for the thread that has them.
#include "base/thread_counters.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <new>
#include <thread>

namespace remontoir {
namespace {

TEST(PageFaultsOfThread, GrowByThePagesThatAreTouched) {
  constexpr int64_t kPages = 64;
  constexpr int64_t kPageBytes = 4096;
  void* const memory = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, kPages * kPageBytes, MADV_NOHUGEPAGE);
  const PageFaults before = PageFaultsOfThread();
  std::thread([&] {
    const PageFaults others = PageFaultsOfThread();
    for (int64_t i = 0; i < kPages / 2; ++i)
      static_cast<volatile char*>(memory)[i * kPageBytes] = 1;
    EXPECT_GE(PageFaultsOfThread().minor - others.minor, kPages / 2);
  }).join();
  const PageFaults between = PageFaultsOfThread();
  for (int64_t i = kPages / 2; i < kPages; ++i)
    static_cast<volatile char*>(memory)[i * kPageBytes] = 1;
  EXPECT_GE(PageFaultsOfThread().minor - between.minor, kPages / 2);
  // Making a thread costs this one some faults, but not the other's touches.
  EXPECT_LT(between.minor - before.minor, kPages / 2);
  munmap(memory, kPages * kPageBytes);
}

struct alignas(64) Wide {
  char bytes[64];
};

TEST(HeapAllocations, CountEveryFormOfNewOfTheOwnThread) {
  if (!HeapAllocationsOfThread().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  struct Case {
    const char* form;
    void (*allocate)();
  };
  // As calls: a new-expression may be left out by the compiler.
  const Case cases[] = {
      {"new", [] { ::operator delete(::operator new(8)); }},
      {"new[]", [] { ::operator delete[](::operator new[](8)); }},
      {"new nothrow", [] { ::operator delete(::operator new(8, std::nothrow)); }},
      {"new[] nothrow", [] { ::operator delete[](::operator new[](8, std::nothrow)); }},
      {"new aligned",
       [] { ::operator delete(::operator new(8, std::align_val_t(64)), std::align_val_t(64)); }},
      {"new[] aligned",
       [] {
         ::operator delete[](::operator new[](8, std::align_val_t(64)), std::align_val_t(64));
       }},
      {"new aligned nothrow",
       [] {
         ::operator delete(::operator new(8, std::align_val_t(64), std::nothrow),
                           std::align_val_t(64));
       }},
      {"new[] aligned nothrow",
       [] {
         ::operator delete[](::operator new[](8, std::align_val_t(64), std::nothrow),
                             std::align_val_t(64));
       }},
  };
  for (const Case& c : cases) {
    const int64_t before = *HeapAllocationsOfThread();
    c.allocate();
    EXPECT_EQ(*HeapAllocationsOfThread() - before, 1) << c.form;
  }
  const auto wide = std::make_unique<Wide>();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.get()) % alignof(Wide), 0u);
}

TEST(HeapAllocations, OfAnotherThreadCountForTheProcessOnly) {
  if (!HeapAllocationsOfThread().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  constexpr int64_t kCount = 1000;
  std::thread worker;
  const int64_t process = *HeapAllocationsOfProcess();
  worker = std::thread([&] {
    const int64_t own = *HeapAllocationsOfThread();
    for (int64_t i = 0; i < kCount; ++i) ::operator delete(::operator new(8));
    EXPECT_EQ(*HeapAllocationsOfThread() - own, kCount);
  });
  const int64_t here = *HeapAllocationsOfThread();
  worker.join();
  EXPECT_EQ(*HeapAllocationsOfThread(), here);
  EXPECT_GE(*HeapAllocationsOfProcess() - process, kCount);
}

TEST(HeapAllocations, ThatCannotBeGivenThrow) {
  if (!HeapAllocationsOfThread().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  // More than an address space has; volatile, so that no compiler knows.
  volatile std::size_t bytes = std::size_t{1} << 62;
  EXPECT_THROW(::operator delete(::operator new(bytes)), std::bad_alloc);
  EXPECT_EQ(::operator new(bytes, std::nothrow), nullptr);
}

}  // namespace
}  // namespace remontoir
