// From the served model to what is told about it.
#include "server/info_handler.h"

#include "api/responses.h"

namespace remontoir {
namespace {

ModelFacts FactsOf(const ServedModel& model) {
  return {.path = model.path,
          .name = model.names.primary,
          .context_tokens = model.engine->context_max()};
}

}  // namespace

std::string ModelInfo(const ServedModel& model) { return ModelInfoJson(FactsOf(model)); }

std::string ServerInfo(const ServedModel& model, const std::string& version) {
  return ServerInfoJson({.version = version,
                         .model = FactsOf(model),
                         .aliases = model.names.aliases,
                         .sequences_max = model.sequences_max,
                         .queue_max = model.engine_queue_max,
                         .kv_room_tokens = model.kv_room_tokens,
                         .backend = model.backend});
}

}  // namespace remontoir
