// What a command printed, and how it ended.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "base/status.h"

namespace remontoir {

struct Printed {
  Status status;
  std::string text;
};

// Calls run(FILE* out), which returns a Status.
template <class Run>
Printed PrintedBy(const Run& run) {
  char* text = nullptr;
  size_t size = 0;
  FILE* const out = open_memstream(&text, &size);
  Printed printed{run(out), {}};
  fclose(out);
  printed.text.assign(text, size);
  free(text);
  return printed;
}

}  // namespace remontoir
