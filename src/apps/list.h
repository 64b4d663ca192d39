// `remontoir list` and `remontoir rm`: what the store holds, and less of it.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "apps/hub_options.h"
#include "base/status.h"
#include "hub/store.h"

namespace remontoir {

// Prints a line a model: name, size, date, and whether it is complete.
Status List(const ListCommand& command, std::FILE* out);

// Says what it removed. An error when the name means no model or several.
Status Remove(const RemoveCommand& command, std::FILE* out);

// The table of `list`, in local time.
std::string ModelTable(const std::vector<StoredModel>& models);

}  // namespace remontoir
