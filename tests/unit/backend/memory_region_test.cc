// Facts about MemoryRegion: aligned, zeroed, and a refusal is an error.
#include "backend/memory_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "base/worker_pool.h"

namespace remontoir {
namespace {

TEST(MemoryRegion, IsAlignedToHugePagesAndZeroed) {
  WorkerPool pool(2);
  for (int64_t bytes : {int64_t{0}, int64_t{1}, MemoryRegion::kAlignment + 1}) {
    Result<MemoryRegion> region = MemoryRegion::Take(bytes, "a test");
    ASSERT_TRUE(region.ok());
    EXPECT_GE(region->size_bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % MemoryRegion::kAlignment, 0u);
    region->Prefault(pool);
    for (int64_t i = 0; i < region->size_bytes(); i += 4096) {
      ASSERT_EQ(region->data()[i], std::byte{0});
    }
    region->data()[region->size_bytes() - 1] = std::byte{1};
  }
}

TEST(MemoryRegion, MovesItsMapping) {
  MemoryRegion region = *MemoryRegion::Take(10, "a test");
  region.data()[0] = std::byte{5};
  std::byte* data = region.data();
  MemoryRegion other(std::move(region));
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.data()[0], std::byte{5});
  other = *MemoryRegion::Take(10, "a test");
  EXPECT_EQ(other.data()[0], std::byte{0});
}

TEST(MemoryRegion, RefusalsNameThePurpose) {
  for (int64_t bytes : {int64_t{1} << 60, std::numeric_limits<int64_t>::max()}) {
    const Result<MemoryRegion> region = MemoryRegion::Take(bytes, "KV pages");
    EXPECT_EQ(region.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(region.status().message(), ::testing::HasSubstr("KV pages"));
  }
}

}  // namespace
}  // namespace remontoir
