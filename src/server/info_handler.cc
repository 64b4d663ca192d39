// From the served model to what is told about it.
#include "server/info_handler.h"

#include <algorithm>

#include "api/json_writer.h"
#include "api/responses.h"
#include "server/reply_room.h"
#include "tensor/kv_layout.h"

namespace remontoir {
namespace {

ModelFacts FactsOf(const ServedModel& model) {
  return {.path = model.path,
          .name = model.names.primary,
          .context_tokens = model.engine->context_max()};
}

// As the configuration spells it.
std::string ElementTypeName(DType type) {
  std::string name(Info(type).name);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

void WriteNotes(JsonWriter& json, const std::vector<std::string>& notes) {
  json.Key("notes").BeginArray();
  for (const std::string& note : notes) json.String(note);
  json.EndArray();
}

void WriteMemory(JsonWriter& json, const KvMemoryReport& report) {
  const MemoryState& arena = report.arena;
  json.Key("kv_memory").BeginObject();
  json.Key("state").String(Name(arena.state));
  json.Key("bytes").Int(arena.bytes);
  json.Key("locked_bytes").Int(arena.locked_bytes);
  json.Key("prefaulted_bytes").Int(arena.prefaulted_bytes - arena.locked_bytes);
  json.Key("plain_bytes").Int(arena.bytes - arena.prefaulted_bytes);
  json.Key("huge_bytes").Int(arena.huge_bytes);
  WriteNotes(json, report.notes);
  json.EndObject();
}

}  // namespace

std::string ModelInfo(const ServedModel& model) { return ModelInfoJson(FactsOf(model)); }

std::string ServerInfo(const ServedModel& model, const std::string& version) {
  return ServerInfoJson({.version = version,
                         .model = FactsOf(model),
                         .aliases = model.names.aliases,
                         .sequences_max = model.plan->sequences_max,
                         .queue_max = model.engine_queue_max,
                         .kv_room_tokens = RoomTokens(*model.plan),
                         .backend = model.backend});
}

std::string PlanInfo(const EnginePlan& plan) {
  JsonWriter json;
  json.BeginObject();
  json.Key("strategy").String(KvStrategyName(plan.dynamic));
  json.Key("context_tokens").Int(plan.context_max);
  json.Key("sequences_max").Int(plan.sequences_max);
  json.Key("round_tokens_max").Int(plan.round_tokens_max);
  json.Key("kv_type").String(ElementTypeName(plan.kv_type));
  json.Key("page_tokens").Int(kKvPageTokens);
  json.Key("page_bytes").Int(plan.page_bytes);
  json.Key("arena_pages").Int(plan.memory.kv_page_count);
  json.Key("dynamic_pages_max").Int(plan.memory.dynamic_page_count);
  json.Key("weights_bytes").Int(plan.memory.weights_bytes);
  json.Key("activation_bytes").Int(plan.memory.activation_bytes);
  json.Key("arena_bytes").Int(plan.memory.kv_bytes);
  json.Key("dynamic_bytes_max").Int(plan.memory.dynamic_bytes);
  json.Key("sealed_bytes").Int(plan.memory.sealed_bytes);
  json.Key("total_bytes").Int(plan.memory.total_bytes);
  json.Key("free_bytes").Int(plan.memory.free_bytes);
  json.Key("mapped_bytes").Int(plan.mapped_bytes);
  json.Key("mapped_expert_bytes").Int(plan.mapped_expert_bytes);
  json.Key("buckets").BeginArray();
  for (const int32_t tokens : plan.bucket_tokens) {
    json.BeginObject();
    json.Key("tokens").Int(tokens);
    json.Key("capacity").Int(plan.bucket_capacity);
    json.EndObject();
  }
  json.EndArray();
  WriteNotes(json, plan.notes);
  WriteMemory(json, plan.kv_memory);
  json.EndObject();
  return json.Take();
}

}  // namespace remontoir
