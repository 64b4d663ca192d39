// What repeated measurements of one thing say: the middle and how far they scatter.
#pragma once

#include <span>

namespace remontoir {

struct Spread {
  double median = 0;
  double low = 0;   // smallest
  double high = 0;  // largest
};

// Of an even number the median is the mean of the two in the middle. `values` isn't empty.
Spread SpreadOf(std::span<const double> values);

}  // namespace remontoir
