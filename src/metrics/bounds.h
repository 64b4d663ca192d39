// The buckets of what is measured. A table changes with care: dashboards keep old bounds for
// months.
#pragma once

#include <cstdint>

#include "metrics/metric.h"

namespace remontoir {

inline constexpr double kUsPerSecond = 1e6;

// From a request's arrival, or its admission, to its first token.
inline constexpr int64_t kFirstTokenUs[] = {
    1'000,     2'000,     5'000,     10'000,     20'000,     35'000,     50'000,
    75'000,    100'000,   150'000,   250'000,    500'000,    750'000,    1'000'000,
    1'500'000, 2'500'000, 5'000'000, 10'000'000, 20'000'000, 40'000'000, 120'000'000};
// Between two tokens of one sequence.
inline constexpr int64_t kTokenGapUs[] = {
    1'000,  2'000,  3'000,   5'000,   7'500,   10'000,  15'000,  20'000,    30'000,    40'000,
    60'000, 80'000, 100'000, 150'000, 200'000, 300'000, 500'000, 1'000'000, 2'500'000, 10'000'000};
// From arrival to admission.
inline constexpr int64_t kQueueUs[] = {100,        200,        500,        1'000,     2'000,
                                       5'000,      10'000,     20'000,     50'000,    100'000,
                                       200'000,    500'000,    1'000'000,  2'000'000, 5'000'000,
                                       10'000'000, 30'000'000, 120'000'000};
// From the first token to the last, and of whole requests.
inline constexpr int64_t kAnswerUs[] = {10'000,     20'000,      50'000,      100'000,
                                        200'000,    500'000,     1'000'000,   2'000'000,
                                        5'000'000,  10'000'000,  20'000'000,  40'000'000,
                                        60'000'000, 120'000'000, 300'000'000, 600'000'000};
// One round of the engine.
inline constexpr int64_t kRoundUs[] = {
    200,    500,    1'000,  2'000,   3'000,   5'000,   7'500,   10'000,    15'000,   20'000,
    40'000, 60'000, 80'000, 100'000, 150'000, 200'000, 400'000, 1'000'000, 5'000'000};
// From admission to usable room for keys and values.
inline constexpr int64_t kKvLeaseUs[] = {1,      2,      5,      10,      20,     50,
                                         100,    200,    500,    1'000,   2'000,  5'000,
                                         10'000, 20'000, 50'000, 100'000, 500'000};
// Tokens of a prompt, an answer or a round.
inline constexpr int64_t kTokenCounts[] = {1,     2,     4,      8,      16,     32,
                                           64,    128,   256,    512,    1'024,  2'048,
                                           4'096, 8'192, 16'384, 32'768, 65'536, 131'072};

// What was measured by what was predicted, in thousandths.
inline constexpr int64_t kRatioPermille[] = {100,   200,   333,   500,   667,   800,
                                             900,   950,   1'000, 1'050, 1'100, 1'250,
                                             1'500, 2'000, 3'000, 5'000, 10'000};

inline constexpr HistogramBounds kFirstTokenBounds = {kFirstTokenUs, kUsPerSecond};
inline constexpr HistogramBounds kTokenGapBounds = {kTokenGapUs, kUsPerSecond};
inline constexpr HistogramBounds kQueueBounds = {kQueueUs, kUsPerSecond};
inline constexpr HistogramBounds kAnswerBounds = {kAnswerUs, kUsPerSecond};
inline constexpr HistogramBounds kRoundBounds = {kRoundUs, kUsPerSecond};
inline constexpr HistogramBounds kKvLeaseBounds = {kKvLeaseUs, kUsPerSecond};
inline constexpr HistogramBounds kTokenBounds = {kTokenCounts, 1};
inline constexpr HistogramBounds kRatioBounds = {kRatioPermille, 1000};

}  // namespace remontoir
