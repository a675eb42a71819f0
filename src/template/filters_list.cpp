// Filters of sequences and mappings.
#include <algorithm>

#include "base/text.h"
#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

Value folded(Renderer& r, const Value& value) { return value.is_string() ? r.text(lower(value.text())) : value; }

/// The parts of an attribute such as "a.b.0": names and indices.
std::vector<Value> attribute_parts(Renderer& r, const Value& attribute) {
  if (attribute.is_absent()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> parts;
  for (const std::string_view name : split(attribute.text(), '.')) {
    const auto index = number_in<std::int64_t>(name);
    parts.push_back(index && *index >= 0 ? integer(*index) : r.part(name));
  }
  return parts;
}

/// What filters take of an item: an attribute of it, in lower case where case does not matter.
class Getter {
 public:
  Getter(Renderer& r, const Value& attribute, bool folds = false, const Value& otherwise = {})
      : r_(r), parts_(attribute_parts(r, attribute)), folds_(folds), otherwise_(otherwise) {}
  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      item = r_.item(item, part);
      if (item.is_undefined() && !otherwise_.is_absent()) item = otherwise_;
    }
    return folds_ ? folded(r_, item) : item;
  }

 private:
  Renderer& r_;
  std::vector<Value> parts_;
  bool folds_;
  Value otherwise_;
};

/// Sorts items by keys, equal ones in their order.
void sort_by(Renderer& r, std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    r.step();
    return reverse ? less(keys[b], keys[a]) : less(keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  for (const std::size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
}

Value lowest_or_highest(Renderer& r, const Arguments& a, const char* name, bool highest) {
  const auto [value, case_sensitive, attribute] = a.bind<3>(name, {"value", "case_sensitive", "attribute"}, 1);
  const Getter key(r, attribute, !is_true(case_sensitive));
  const std::vector<Value> items = r.items(value);
  if (items.empty()) return r.undefined_because("No aggregated item, sequence was empty.");
  Value best = items[0], best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const Value other = key(items[i]);
    if (highest ? greater(other, best_key) : less(other, best_key)) {
      best = items[i];
      best_key = other;
    }
  }
  return best;
}

/// The arguments of the filter or test that `map` or `select` applies to each item: those after its name.
Arguments passed_on(const Arguments& a, std::size_t i_name) {
  Arguments call{{Value{}}, a.named};
  call.positional.insert(call.positional.end(), a.positional.begin() + static_cast<std::ptrdiff_t>(i_name) + 1,
                         a.positional.end());
  return call;
}

/// A filter or test that is given by name.
Builtin& need_builtin(const char* what, const Value& name, Builtin* find(std::string_view)) {
  Builtin* const found = name.is_string() ? find(name.text()) : nullptr;
  if (found == nullptr) throw error("runtime", "No {} named {}.", what, repr(name));
  if (found == refused) throw unsupported(what, name.text());
  return *found;
}

Value applied(Renderer& r, Builtin& builtin, const Arguments& passed, const Value& item) {
  r.step();
  Arguments call = passed;
  call.positional[0] = item;
  return builtin(r, call);
}

Value selected(Renderer& r, const Arguments& a, bool by_attribute, bool keeps) {
  std::vector<Value> kept;
  if (is_true(a.positional[0])) {  // of other values, undefined ones too, there are no items
    const std::size_t i_name = by_attribute ? 2 : 1;
    if (by_attribute && a.positional.size() < 2) throw error("runtime", "Missing parameter for attribute name");
    const Getter getter(r, by_attribute ? a.positional[1] : Value{});
    const bool has_test = a.positional.size() > i_name;
    Builtin* const test = has_test ? &need_builtin("test", a.positional[i_name], find_test) : nullptr;
    const Arguments passed = has_test ? passed_on(a, i_name) : Arguments{};
    for (const Value& item : r.items(a.positional[0])) {
      const Value tested = getter(item);
      if (is_true(test != nullptr ? applied(r, *test, passed, tested) : tested) == keeps) kept.push_back(item);
    }
  }
  return r.new_iterator(kept);
}

}  // namespace

Value filter_map(Renderer& r, Arguments& a) {
  const Value source = a.positional[0];
  if (!is_true(source)) return r.new_iterator({});
  std::vector<Value> items;
  if (a.positional.size() == 1) {
    const Value attribute = a.take("attribute"), otherwise = a.take("default");
    if (attribute.is_missing()) throw error("runtime", "map requires a filter argument");
    if (!a.named.empty()) throw error("runtime", "Unexpected keyword argument {}", repr_text(a.named[0].name));
    const Getter getter(r, attribute, false, otherwise);
    for (const Value& item : r.items(source)) items.push_back(getter(item));
  } else {
    Builtin& filter = need_builtin("filter", a.positional[1], find_filter);
    const Arguments passed = passed_on(a, 1);
    for (const Value& item : r.items(source)) items.push_back(applied(r, filter, passed, item));
  }
  return r.new_iterator(items);
}

Value filter_select(Renderer& r, Arguments& a) { return selected(r, a, false, true); }
Value filter_reject(Renderer& r, Arguments& a) { return selected(r, a, false, false); }
Value filter_selectattr(Renderer& r, Arguments& a) { return selected(r, a, true, true); }
Value filter_rejectattr(Renderer& r, Arguments& a) { return selected(r, a, true, false); }

Value filter_list(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_list", {"value"}, 1);
  return r.new_list(r.items(value));
}

Value filter_length(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("len", {"obj"}, 1);
  const std::int64_t size = r.length(value);
  if (size < 0) throw type_error("object of type '{}' has no len()", type_name(value));
  return integer(size);
}

Value filter_first(Renderer& r, Arguments& a) {
  const auto [seq] = a.bind<1>("do_first", {"seq"}, 1);
  Iteration iteration(r, seq);
  Value item;
  return iteration.next(item) ? item : r.undefined_because("No first item, sequence was empty.");
}

Value filter_last(Renderer& r, Arguments& a) {
  const auto [seq] = a.bind<1>("do_last", {"seq"}, 1);
  if (seq.is(Kind::iterator) || !is_iterable(seq)) {
    throw type_error("'{}' object is not reversible", type_name(seq));
  }
  const std::vector<Value> items = r.items(seq);
  return items.empty() ? r.undefined_because("No last item, sequence was empty.") : items.back();
}

Value filter_reverse(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_reverse", {"value"}, 1);
  if (value.is_string()) return r.slice(value, none(), none(), integer(-1));
  if (!is_iterable(value)) throw error("runtime", "argument must be iterable");
  std::vector<Value> items = r.items(value);
  std::reverse(items.begin(), items.end());
  if (value.is_undefined() || value.is(Kind::iterator)) return r.new_list(items);
  return r.new_iterator(items, value.is(Kind::list) ? "list_reverseiterator" : "reversed");
}

Value filter_join(Renderer& r, Arguments& a) {
  const auto [value, d, attribute] = a.bind<3>("do_join", {"value", "d", "attribute"}, 1);
  const Getter getter(r, attribute);
  const std::string_view separator = d.is_missing() ? "" : r.str_of(d);
  Draft out = r.new_draft();
  bool is_first = true;
  for (const Value& given : r.items(value)) {
    if (!is_first) out += separator;
    is_first = false;
    const Value item = getter(given);
    if (item.is_string()) {
      out += item.text();
    } else {
      out += str(item);
    }
    r.heap().check(out.size());
  }
  return r.text(out);
}

/// The pairs of a dict.
std::vector<Value> pairs_of(Renderer& r, const Dict& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.entries) pairs.push_back(pair(r.heap(), key, value));
  return pairs;
}

Value filter_items(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_items", {"value"}, 1);
  if (value.is_undefined()) return r.new_iterator({});
  if (!value.is(Kind::dict)) throw type_error("Can only get item pairs from a mapping.");
  return r.new_iterator(pairs_of(r, *value.dict));
}

Value filter_dictsort(Renderer& r, Arguments& a) {
  const auto [value, case_sensitive, by, reverse] =
      a.bind<4>("do_dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  const std::string order = by.is_missing() ? "key" : str(by);
  if (order != "key" && order != "value") throw error("runtime", "You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::dict)) throw error("AttributeError", "'{}' object has no attribute 'items'", type_name(value));
  std::vector<Value> items = pairs_of(r, *value.dict), keys;
  for (const Dict::Entry& entry : value.dict->entries) {
    const Value& key = order == "key" ? entry.key : entry.value;
    keys.push_back(is_true(case_sensitive) ? key : folded(r, key));
  }
  sort_by(r, items, keys, is_true(reverse));
  return r.new_list(items);
}

Value filter_sort(Renderer& r, Arguments& a) {
  const auto [value, reverse, case_sensitive, attribute] =
      a.bind<4>("do_sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<Getter> getters;
  if (attribute.is_string()) {
    for (const std::string_view one : split(attribute.text(), ',')) {
      getters.emplace_back(r, r.part(one), !is_true(case_sensitive));
    }
  } else {
    getters.emplace_back(r, attribute, !is_true(case_sensitive));
  }
  std::vector<Value> items = r.items(value), keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const Getter& getter : getters) parts.push_back(getter(item));
    keys.push_back(r.new_list(parts));
  }
  sort_by(r, items, keys, is_true(reverse));
  return r.new_list(items);
}

Value filter_unique(Renderer& r, Arguments& a) {
  const auto [value, case_sensitive, attribute] = a.bind<3>("do_unique", {"value", "case_sensitive", "attribute"}, 1);
  const Getter getter(r, attribute, !is_true(case_sensitive));
  Dict seen(r.heap());
  std::vector<Value> kept;
  for (const Value& item : r.items(value)) {
    const Value key = getter(item);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, none());
    kept.push_back(item);
  }
  return r.new_iterator(kept);
}

Value filter_min(Renderer& r, Arguments& a) { return lowest_or_highest(r, a, "do_min", false); }
Value filter_max(Renderer& r, Arguments& a) { return lowest_or_highest(r, a, "do_max", true); }

Value filter_sum(Renderer& r, Arguments& a) {
  const auto [iterable, attribute, start] = a.bind<3>("do_sum", {"iterable", "attribute", "start"}, 1);
  Value total = start.is_missing() ? integer(0) : start;
  if (!is_iterable(iterable)) throw type_error("'{}' object is not iterable", type_name(iterable));
  if (total.is_string()) throw type_error("sum() can't sum strings [use ''.join(seq) instead]");
  const Getter getter(r, attribute);
  for (const Value& item : r.items(iterable)) total = add(r, total, getter(item));
  return total;
}

Value filter_batch(Renderer& r, Arguments& a) {
  const auto [value, linecount, fill_with] = a.bind<3>("do_batch", {"value", "linecount", "fill_with"}, 2);
  std::vector<Value> batches, current;
  for (const Value& item : r.items(value)) {
    if (linecount.is_number() && static_cast<double>(current.size()) == linecount.as_real()) {
      batches.push_back(r.new_list(current));
      current.clear();
    }
    current.push_back(item);
  }
  if (!current.empty()) {
    if (!fill_with.is_absent()) {
      const std::int64_t wanted = to_index(linecount);
      r.heap().check(static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0)) * sizeof(Value));
      while (static_cast<std::int64_t>(current.size()) < wanted) current.push_back(fill_with);
    }
    batches.push_back(r.new_list(current));
  }
  return r.new_iterator(batches);
}

Value filter_slice(Renderer& r, Arguments& a) {
  const auto [value, slices, fill_with] = a.bind<3>("do_slice", {"value", "slices", "fill_with"}, 2);
  const std::vector<Value> items = r.items(value);
  const std::int64_t n = to_index(slices), size = static_cast<std::int64_t>(items.size());
  if (n == 0) throw error("ZeroDivisionError", "integer division or modulo by zero");
  std::vector<Value> made;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    r.step();
    const std::int64_t end = begin + size / n + (i < size % n);
    std::vector<Value> slice(items.begin() + begin, items.begin() + end);
    if (!fill_with.is_absent() && i >= size % n) slice.push_back(fill_with);
    made.push_back(r.new_list(slice));
    begin = end;
  }
  return r.new_iterator(made);
}

Value filter_groupby(Renderer& r, Arguments& a) {
  const auto [value, attribute, otherwise, case_sensitive] =
      a.bind<4>("do_groupby", {"value", "attribute", "default", "case_sensitive"}, 2);
  const Getter folding(r, attribute, !is_true(case_sensitive), otherwise), plain(r, attribute, false, otherwise);
  std::vector<Value> items = r.items(value), keys;
  for (const Value& item : items) keys.push_back(folding(item));
  sort_by(r, items, keys, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < items.size();) {
    const Value key = folding(items[i]);
    std::vector<Value> group;
    const Value shown = plain(items[i]);
    for (; i < items.size() && equal(folding(items[i]), key); ++i) group.push_back(items[i]);
    Value made = pair(r.heap(), shown, r.new_list(group));
    made.list->label = "_GroupTuple";
    groups.push_back(made);
  }
  return r.new_list(groups);
}

}  // namespace vitrine::jinja
