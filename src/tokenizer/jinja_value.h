// The values of chat templates: Python's kinds as far as templates see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/span_text.h"

namespace remontoir {

class JinjaMap;
struct JinjaList;
struct JinjaNamespace;
struct JinjaMacro;
struct JinjaLoop;

// Absent; using it in most ways is an error that says `what`.
struct JinjaUndefined {
  std::string what;  // "'x' is undefined"
};

// A function that the interpreter knows by name.
struct JinjaFunction {
  std::string_view name;  // of static storage
};

// Cheap to copy: what is large is shared. Lists and maps don't change once they are in a value;
// only namespaces do.
class JinjaValue {
 public:
  JinjaValue() : value_(nullptr) {}                   // none
  JinjaValue(bool value) : value_(value) {}           // NOLINT(google-explicit-constructor)
  JinjaValue(int64_t value) : value_(value) {}        // NOLINT(google-explicit-constructor)
  JinjaValue(double value) : value_(value) {}         // NOLINT(google-explicit-constructor)
  JinjaValue(JinjaUndefined value);                   // NOLINT(google-explicit-constructor)
  JinjaValue(JinjaFunction value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  JinjaValue(SpanText text);                          // NOLINT(google-explicit-constructor)
  JinjaValue(JinjaMap map);                           // NOLINT(google-explicit-constructor)
  JinjaValue(std::shared_ptr<JinjaNamespace> value) : value_(std::move(value)) {}    // NOLINT
  JinjaValue(std::shared_ptr<const JinjaMacro> value) : value_(std::move(value)) {}  // NOLINT
  JinjaValue(std::shared_ptr<JinjaLoop> value) : value_(std::move(value)) {}         // NOLINT
  JinjaValue(const char*) = delete;  // say whose text it is

  static JinjaValue Content(std::string_view text) { return SpanText(text, Origin::kContent); }
  static JinjaValue Template(std::string_view text) { return SpanText(text, Origin::kTemplate); }
  static JinjaValue List(std::vector<JinjaValue> items);
  static JinjaValue Tuple(std::vector<JinjaValue> items);

  bool IsUndefined() const { return Holds<std::shared_ptr<const JinjaUndefined>>(); }
  bool IsNone() const { return Holds<std::nullptr_t>(); }
  bool IsBool() const { return Holds<bool>(); }
  bool IsInteger() const { return Holds<int64_t>(); }
  bool IsFloat() const { return Holds<double>(); }
  bool IsNumber() const { return IsBool() || IsInteger() || IsFloat(); }  // as Python counts
  bool IsString() const { return Holds<std::shared_ptr<const SpanText>>(); }
  bool IsList() const { return Holds<std::shared_ptr<const JinjaList>>(); }  // a tuple too
  bool IsMap() const { return Holds<std::shared_ptr<const JinjaMap>>(); }

  // Each asks for its kind to be held.
  const JinjaUndefined& undefined() const { return *Get<std::shared_ptr<const JinjaUndefined>>(); }
  bool boolean() const { return Get<bool>(); }
  int64_t integer() const { return Get<int64_t>(); }
  const SpanText& string() const { return *Get<std::shared_ptr<const SpanText>>(); }
  const std::string& text() const { return string().text(); }
  const std::vector<JinjaValue>& items() const;
  bool IsTuple() const;
  const JinjaMap& map() const { return *Get<std::shared_ptr<const JinjaMap>>(); }

  // nullptr if another kind is held.
  JinjaNamespace* name_space() const { return Pointer<std::shared_ptr<JinjaNamespace>>(); }
  const JinjaMacro* macro() const { return Pointer<std::shared_ptr<const JinjaMacro>>(); }
  JinjaLoop* loop() const { return Pointer<std::shared_ptr<JinjaLoop>>(); }
  const JinjaFunction* function() const { return std::get_if<JinjaFunction>(&value_); }

  // A bool or integer as an integer; nullopt for others.
  std::optional<int64_t> AsInteger() const;
  // Any number; nullopt for others.
  std::optional<double> AsDouble() const;
  bool Truth() const;
  // Python's name of the kind, for messages: "str", "list", ...
  std::string_view TypeName() const;

 private:
  template <class T>
  bool Holds() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& Get() const {
    return std::get<T>(value_);
  }
  template <class T>
  typename T::element_type* Pointer() const {
    const T* held = std::get_if<T>(&value_);
    return held == nullptr ? nullptr : held->get();
  }

  std::variant<std::nullptr_t, bool, int64_t, double, JinjaFunction,
               std::shared_ptr<const JinjaUndefined>, std::shared_ptr<const SpanText>,
               std::shared_ptr<const JinjaList>, std::shared_ptr<const JinjaMap>,
               std::shared_ptr<JinjaNamespace>, std::shared_ptr<const JinjaMacro>,
               std::shared_ptr<JinjaLoop>>
      value_;
};

struct JinjaList {
  std::vector<JinjaValue> items;
  bool tuple = false;
};

// Entries in the order in which they were added. Keys are strings, numbers, booleans or none.
class JinjaMap {
 public:
  struct Entry {
    JinjaValue key;
    JinjaValue value;
  };

  // The caller knows that the key is new (JSON's objects, say).
  void Append(JinjaValue key, JinjaValue value) {
    entries_.push_back({std::move(key), std::move(value)});
  }
  // Replaces the value of an equal key.
  void Set(JinjaValue key, JinjaValue value);
  const JinjaValue* Find(std::string_view key) const;   // nullptr: none
  const JinjaValue* Find(const JinjaValue& key) const;  // of any kind

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

 private:
  std::vector<Entry> entries_;
};

// What `namespace()` makes: the one thing that a template can change.
struct JinjaNamespace {
  JinjaMap attributes;
};

// Equality of simple values (not lists or maps), as Python has it: 1 == 1.0 == True.
bool SimplyEqual(const JinjaValue& a, const JinjaValue& b);

}  // namespace remontoir
