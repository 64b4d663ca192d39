// Building and asking values.
#include "tokenizer/jinja_value.h"

namespace remontoir {

JinjaValue::JinjaValue(JinjaUndefined value)
    : value_(std::make_shared<const JinjaUndefined>(std::move(value))) {}
JinjaValue::JinjaValue(SpanText text) : value_(std::make_shared<const SpanText>(std::move(text))) {}
JinjaValue::JinjaValue(JinjaMap map) : value_(std::make_shared<const JinjaMap>(std::move(map))) {}

JinjaValue JinjaValue::List(std::vector<JinjaValue> items) {
  JinjaValue value;
  value.value_ = std::make_shared<const JinjaList>(JinjaList{std::move(items), false});
  return value;
}

JinjaValue JinjaValue::Tuple(std::vector<JinjaValue> items) {
  JinjaValue value;
  value.value_ = std::make_shared<const JinjaList>(JinjaList{std::move(items), true});
  return value;
}

const std::vector<JinjaValue>& JinjaValue::items() const {
  return Get<std::shared_ptr<const JinjaList>>()->items;
}

bool JinjaValue::IsTuple() const {
  return IsList() && Get<std::shared_ptr<const JinjaList>>()->tuple;
}

std::optional<int64_t> JinjaValue::AsInteger() const {
  if (IsBool()) return boolean() ? 1 : 0;
  if (IsInteger()) return integer();
  return std::nullopt;
}

std::optional<double> JinjaValue::AsDouble() const {
  if (IsFloat()) return Get<double>();
  const std::optional<int64_t> whole = AsInteger();
  if (!whole.has_value()) return std::nullopt;
  return static_cast<double>(*whole);
}

bool JinjaValue::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsString()) return !string().empty();
  if (IsList()) return !items().empty();
  if (IsMap()) return map().size() > 0;
  const std::optional<double> number = AsDouble();
  return !number.has_value() || *number != 0;
}

std::string_view JinjaValue::TypeName() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "NoneType";
  if (IsBool()) return "bool";
  if (IsInteger()) return "int";
  if (IsFloat()) return "float";
  if (IsString()) return "str";
  if (IsList()) return IsTuple() ? "tuple" : "list";
  if (IsMap()) return "dict";
  if (name_space() != nullptr) return "Namespace";
  if (macro() != nullptr) return "Macro";
  return loop() != nullptr ? "LoopContext" : "function";
}

void JinjaMap::Set(JinjaValue key, JinjaValue value) {
  for (Entry& entry : entries_) {
    if (!SimplyEqual(entry.key, key)) continue;
    entry.value = std::move(value);
    return;
  }
  Append(std::move(key), std::move(value));
}

const JinjaValue* JinjaMap::Find(std::string_view key) const {
  for (const Entry& entry : entries_) {
    if (entry.key.IsString() && entry.key.text() == key) return &entry.value;
  }
  return nullptr;
}

const JinjaValue* JinjaMap::Find(const JinjaValue& key) const {
  for (const Entry& entry : entries_) {
    if (SimplyEqual(entry.key, key)) return &entry.value;
  }
  return nullptr;
}

bool SimplyEqual(const JinjaValue& a, const JinjaValue& b) {
  if (a.IsString() || b.IsString()) return a.IsString() && b.IsString() && a.text() == b.text();
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsUndefined() || b.IsUndefined()) return a.IsUndefined() && b.IsUndefined();
  const std::optional<int64_t> a_whole = a.AsInteger();
  const std::optional<int64_t> b_whole = b.AsInteger();
  if (a_whole.has_value() && b_whole.has_value()) return *a_whole == *b_whole;
  const std::optional<double> a_number = a.AsDouble();
  const std::optional<double> b_number = b.AsDouble();
  return a_number.has_value() && b_number.has_value() && *a_number == *b_number;
}

}  // namespace remontoir
