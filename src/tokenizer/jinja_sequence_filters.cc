// Filters on lists and maps.
#include <algorithm>
#include <charconv>
#include <string>

#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_methods.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_strings.h"
#include "tokenizer/jinja_tests.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

using Call = JinjaFilterCall;
using Items = std::vector<JinjaValue>;

Result<Items> ItemsOf(const Call& call) { return JinjaItems(call.runtime, call.subject); }

// map() and select() and their like take anything that is not true as empty, even none.
Result<Items> ItemsIfTrue(const Call& call) {
  return call.subject.Truth() ? ItemsOf(call) : Result<Items>(Items{});
}

// item.a.b.0 for the attribute "a.b.0"; an attribute that is a number is an index.
Result<JinjaValue> AttributeOf(JinjaRuntime& runtime, JinjaValue item,
                               const JinjaValue& attribute) {
  if (!attribute.IsString()) return JinjaSubscript(runtime, item, attribute);
  std::string_view path = attribute.text();
  while (true) {
    const std::string_view name = path.substr(0, path.find('.'));
    int64_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool numbered =
        !name.empty() && parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
    REM_ASSIGN_OR_RETURN(
        item,
        JinjaSubscript(runtime, item, numbered ? JinjaValue(index) : JinjaValue::Template(name)));
    if (name.size() == path.size()) return item;
    path.remove_prefix(name.size() + 1);
  }
}

// The items, or what the argument `attribute` names of each.
Result<Items> KeysOf(const Call& call, const Items& items, const JinjaValue* attribute,
                     bool case_sensitive) {
  Items keys;
  for (const JinjaValue& item : items) {
    JinjaValue key = item;
    if (attribute != nullptr && !attribute->IsNone()) {
      REM_ASSIGN_OR_RETURN(key, AttributeOf(call.runtime, item, *attribute));
    }
    if (!case_sensitive && key.IsString()) {
      REM_RETURN_IF_ERROR(call.runtime.Spend(key.string().size()));
      key = MapCase(key.string(), CaseMap::kLower);
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

// Stable order of the keys' indices. The first error ends all comparisons.
Result<std::vector<size_t>> SortedOrder(JinjaRuntime& runtime, const Items& keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Status error;
  const auto before = [&](size_t a, size_t b) {
    if (!error.ok()) return false;
    const Result<int> compared = JinjaOrder(runtime, keys[a], keys[b]);
    if (!compared.ok()) error = compared.status();
    return compared.ok() && (reverse ? *compared > 0 : *compared < 0);
  };
  std::stable_sort(order.begin(), order.end(), before);
  REM_RETURN_IF_ERROR(error);
  return order;
}

Result<JinjaValue> ToList(const Call& call) {
  REM_ASSIGN_OR_RETURN(Items items, ItemsOf(call));
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> Length(const Call& call) {
  REM_ASSIGN_OR_RETURN(const int64_t length, JinjaLength(call.subject));
  return JinjaValue(length);
}

template <bool kLast>
Result<JinjaValue> End(const Call& call) {
  if (call.subject.IsString() || call.subject.IsList()) {
    return JinjaSubscript(call.runtime, call.subject, JinjaValue(int64_t{kLast ? -1 : 0}));
  }
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  if (items.empty()) return JinjaValue(JinjaUndefined{"an empty sequence has no items"});
  return kLast ? items.back() : items.front();
}

Result<JinjaValue> Reverse(const Call& call) {
  if (call.subject.IsString()) {
    return JinjaSlice(call.runtime, call.subject, JinjaValue(), JinjaValue(),
                      JinjaValue(int64_t{-1}));
  }
  REM_ASSIGN_OR_RETURN(Items items, ItemsOf(call));
  std::reverse(items.begin(), items.end());
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> Join(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  SpanText separator;
  if (const JinjaValue* given = call.Find(0, "d")) {
    REM_ASSIGN_OR_RETURN(separator, JinjaText(call.runtime, *given));
  }
  const JinjaValue* attribute = call.Find(1, "attribute");
  SpanText joined;
  for (size_t i = 0; i < items.size(); ++i) {
    JinjaValue item = items[i];
    if (attribute != nullptr && !attribute->IsNone()) {
      REM_ASSIGN_OR_RETURN(item, AttributeOf(call.runtime, item, *attribute));
    }
    if (i > 0) joined.Append(separator);
    REM_RETURN_IF_ERROR(call.runtime.Spend(separator.size()));
    REM_RETURN_IF_ERROR(AppendJinjaText(call.runtime, item, joined));
  }
  return JinjaValue(std::move(joined));
}

Result<JinjaValue> Pairs(const Call& call) {
  if (call.subject.IsUndefined()) return JinjaValue::List({});
  if (!call.subject.IsMap()) return InvalidArgument("Can only get item pairs from a mapping.");
  return JinjaPairs(call.runtime, call.subject);
}

Result<JinjaValue> SortMap(const Call& call) {
  if (!call.subject.IsMap()) return call.Error("wants a mapping");
  REM_ASSIGN_OR_RETURN(const JinjaValue pairs, JinjaPairs(call.runtime, call.subject));
  const JinjaValue* by = call.Find(1, "by");
  const bool by_value = by != nullptr && by->IsString() && by->text() == "value";
  const JinjaValue place(int64_t{by_value ? 1 : 0});
  REM_ASSIGN_OR_RETURN(const Items keys,
                       KeysOf(call, pairs.items(), &place, call.Flag(0, "case_sensitive", false)));
  REM_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                       SortedOrder(call.runtime, keys, call.Flag(2, "reverse", false)));
  Items sorted;
  for (size_t i : order) sorted.push_back(pairs.items()[i]);
  return JinjaValue::List(std::move(sorted));
}

Result<JinjaValue> Sort(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  REM_ASSIGN_OR_RETURN(const Items keys, KeysOf(call, items, call.Find(2, "attribute"),
                                                call.Flag(1, "case_sensitive", false)));
  REM_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                       SortedOrder(call.runtime, keys, call.Flag(0, "reverse", false)));
  Items sorted;
  for (size_t i : order) sorted.push_back(items[i]);
  return JinjaValue::List(std::move(sorted));
}

template <bool kGreatest>
Result<JinjaValue> Extreme(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  if (items.empty()) return JinjaValue(JinjaUndefined{"No aggregated item, sequence was empty."});
  REM_ASSIGN_OR_RETURN(const Items keys, KeysOf(call, items, call.Find(1, "attribute"),
                                                call.Flag(0, "case_sensitive", false)));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    REM_ASSIGN_OR_RETURN(const int order, JinjaOrder(call.runtime, keys[i], keys[best]));
    if (kGreatest ? order > 0 : order < 0) best = i;
  }
  return items[best];
}

Result<JinjaValue> Unique(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  REM_ASSIGN_OR_RETURN(const Items keys, KeysOf(call, items, call.Find(1, "attribute"),
                                                call.Flag(0, "case_sensitive", false)));
  std::vector<size_t> kept;
  for (size_t i = 0; i < keys.size(); ++i) {
    bool seen = false;
    for (size_t k = 0; k < kept.size() && !seen; ++k) {
      REM_ASSIGN_OR_RETURN(seen, JinjaEqual(call.runtime, keys[kept[k]], keys[i]));
    }
    if (!seen) kept.push_back(i);
  }
  Items unique;
  for (size_t i : kept) unique.push_back(items[i]);
  return JinjaValue::List(std::move(unique));
}

Result<JinjaValue> Sum(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  REM_ASSIGN_OR_RETURN(const Items keys, KeysOf(call, items, call.Find(0, "attribute"), true));
  const JinjaValue* start = call.Find(1, "start");
  JinjaValue sum = start == nullptr ? JinjaValue(int64_t{0}) : *start;
  for (const JinjaValue& key : keys) {
    REM_ASSIGN_OR_RETURN(sum, JinjaBinary(call.runtime, "+", sum, key));
  }
  return sum;
}

// Lists of (key, items with that key), sorted by key.
Result<JinjaValue> GroupBy(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  const JinjaValue* attribute = call.Find(0, "attribute");
  if (attribute == nullptr) return call.Error("wants an attribute");
  REM_ASSIGN_OR_RETURN(const Items keys,
                       KeysOf(call, items, attribute, call.Flag(2, "case_sensitive", false)));
  REM_ASSIGN_OR_RETURN(const std::vector<size_t> order, SortedOrder(call.runtime, keys, false));
  Items groups;
  for (size_t begin = 0; begin < order.size();) {
    Items group;
    size_t end = begin;
    while (end < order.size()) {
      REM_ASSIGN_OR_RETURN(const bool same,
                           JinjaEqual(call.runtime, keys[order[begin]], keys[order[end]]));
      if (!same) break;
      group.push_back(items[order[end++]]);
    }
    REM_ASSIGN_OR_RETURN(JinjaValue key, AttributeOf(call.runtime, group[0], *attribute));
    groups.push_back(JinjaValue::Tuple({std::move(key), JinjaValue::List(std::move(group))}));
    begin = end;
  }
  return JinjaValue::List(std::move(groups));
}

Result<JinjaValue> Batch(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsOf(call));
  REM_ASSIGN_OR_RETURN(const int64_t size, call.Whole(0, "linecount", 0));
  if (size <= 0) return call.Error("wants a count above 0");
  Items batches;
  for (size_t begin = 0; begin < items.size();) {
    const size_t end = items.size() - begin > static_cast<size_t>(size)
                           ? begin + static_cast<size_t>(size)
                           : items.size();
    batches.push_back(JinjaValue::List(Items(items.begin() + begin, items.begin() + end)));
    begin = end;
  }
  return JinjaValue::List(std::move(batches));
}

Result<JinjaValue> Attribute(const Call& call) {
  const JinjaValue* name = call.Find(0, "name");
  if (name == nullptr || !name->IsString()) return call.Error("wants a name");
  return JinjaAttribute(call.subject, name->text());
}

// The arguments behind the first `used`.
JinjaArguments Remaining(const JinjaArguments& arguments, size_t used) {
  JinjaArguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + std::min(used, rest.positional.size()));
  return rest;
}

// map('filter', arguments...) or map(attribute='a.b', default=...).
Result<JinjaValue> Map(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsIfTrue(call));
  const JinjaValue* attribute = call.arguments.Find("attribute");
  const JinjaValue* fallback = call.arguments.Find("default");
  const bool by_filter =
      !call.arguments.positional.empty() && call.arguments.positional[0].IsString();
  if (attribute == nullptr && !by_filter) return call.Error("wants a filter or an attribute");
  const JinjaArguments rest = Remaining(call.arguments, 1);
  Items mapped;
  for (const JinjaValue& item : items) {
    JinjaValue result;
    if (attribute != nullptr) {
      REM_ASSIGN_OR_RETURN(result, AttributeOf(call.runtime, item, *attribute));
      if (result.IsUndefined() && fallback != nullptr) result = *fallback;
    } else {
      REM_ASSIGN_OR_RETURN(
          result, ApplyJinjaFilter(call.runtime, call.arguments.positional[0].text(), item, rest));
    }
    mapped.push_back(std::move(result));
  }
  return JinjaValue::List(std::move(mapped));
}

// select, reject, selectattr, rejectattr: by a test, or by truth without one.
template <bool kByAttribute, bool kWanted>
Result<JinjaValue> Select(const Call& call) {
  REM_ASSIGN_OR_RETURN(const Items items, ItemsIfTrue(call));
  const std::vector<JinjaValue>& given = call.arguments.positional;
  constexpr size_t kTestPlace = kByAttribute ? 1 : 0;
  if (kByAttribute && given.empty()) return call.Error("wants an attribute");
  const bool by_test = given.size() > kTestPlace;
  if (by_test && !given[kTestPlace].IsString()) return call.Error("wants a test's name");
  const JinjaArguments rest = Remaining(call.arguments, kTestPlace + 1);
  Items selected;
  for (const JinjaValue& item : items) {
    JinjaValue tested = item;
    if (kByAttribute) {
      REM_ASSIGN_OR_RETURN(tested, AttributeOf(call.runtime, item, given[0]));
    }
    bool passes = tested.Truth();
    if (by_test) {
      REM_ASSIGN_OR_RETURN(passes,
                           ApplyJinjaTest(call.runtime, given[kTestPlace].text(), tested, rest));
    }
    if (passes == kWanted) selected.push_back(item);
  }
  return JinjaValue::List(std::move(selected));
}

constexpr JinjaNamedFilter kFilters[] = {
    {"list", ToList},
    {"length", Length},
    {"count", Length},
    {"first", End<false>},
    {"last", End<true>},
    {"reverse", Reverse},
    {"join", Join},
    {"items", Pairs},
    {"dictsort", SortMap},
    {"sort", Sort},
    {"min", Extreme<false>},
    {"max", Extreme<true>},
    {"unique", Unique},
    {"sum", Sum},
    {"groupby", GroupBy},
    {"batch", Batch},
    {"attr", Attribute},
    {"map", Map},
    {"select", Select<false, true>},
    {"reject", Select<false, false>},
    {"selectattr", Select<true, true>},
    {"rejectattr", Select<true, false>},
};

}  // namespace

JinjaFilter FindJinjaSequenceFilter(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFilters), std::end(kFilters),
                   [name](const JinjaNamedFilter& named) { return named.name == name; });
  return found == std::end(kFilters) ? nullptr : found->filter;
}

}  // namespace remontoir
