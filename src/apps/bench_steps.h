// `remontoir bench engine --steps-profile`: what the kinds of steps of a round take.
#pragma once

#include <array>
#include <cstdio>
#include <span>
#include <vector>

#include "apps/bench_ceilings.h"
#include "apps/bench_options.h"
#include "apps/bench_runner.h"
#include "base/status.h"

namespace remontoir {

// Rows that some rounds computed in all.
struct RowCounts {
  std::array<double, 3> rows = {0, 0, 0};  // by RowSpace
  double rounds = 0;
  double expert_share = 0;  // of the expert matrices' bytes that a round reads
};

// What the products of one kind of step did.
struct ProductWork {
  // Multiply-adds as two, each of two 8-bit forms counted: what the kernels were asked to do.
  std::array<double, kPanelFormatCount> ops_by_format = {};
  BenchWork work;  // what had to be done at least

  double ops() const;
};

ProductWork WorkOfKind(std::span<const StepDescription> steps, StepKind kind,
                       const RowCounts& counts);

// Measures the rows as BenchEngine does, with the clock read at every step.
Status BenchSteps(BenchRunner& runner, const std::vector<BenchRow>& rows, CeilingMeter& meter,
                  const BenchEngineOptions& options, std::FILE* out);

}  // namespace remontoir
