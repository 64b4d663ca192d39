// Facts about the table of models.
#include "apps/list.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

namespace remontoir {
namespace {

TEST(ModelTable, AlignsItsColumnsAndMarksWhatIsNotComplete) {
  setenv("TZ", "UTC", 1);
  tzset();
  EXPECT_EQ(ModelTable({{"o/r/long-name.gguf", {}, 4'240'000'000, 1'700'000'000, true},
                        {"a.gguf", {}, 999, 1'700'086'399, false}}),
            "NAME                SIZE        MODIFIED\n"
            "o/r/long-name.gguf  4.2 GB      2023-11-14 22:13\n"
            "a.gguf              999 bytes   2023-11-15 22:13  not complete\n");
}

}  // namespace
}  // namespace remontoir
