// Filters of sequences and mappings.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

Value folded(Renderer& r, const Value& value) { return value.is_string() ? r.text(lower(value.text())) : value; }

/// The parts of an attribute such as "a.b.0": names and indices.
std::vector<Value> attribute_parts(Renderer& r, const Value& attribute) {
  if (attribute.is_none() || attribute.is_missing()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> parts;
  std::string_view rest = attribute.text();
  while (true) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto index = is_number ? parse_integer(part, 10) : std::nullopt;
    parts.push_back(index ? integer(*index) : r.part(part));
    if (dot == rest.size()) return parts;
    rest.remove_prefix(dot + 1);
  }
}

/// What filters take of an item: an attribute of it, in lower case where case does not matter.
class Getter {
 public:
  Getter(Renderer& r, const Value& attribute, bool folds = false, const Value& otherwise = {})
      : r_(r), parts_(r.new_list(attribute_parts(r, attribute)).list), folds_(folds), otherwise_(otherwise) {}
  Value operator()(Value item) const {
    for (const Value& part : parts_->items) {
      item = r_.item(item, part);
      if (item.is_undefined() && !otherwise_.is_missing() && !otherwise_.is_none()) item = otherwise_;
    }
    return folds_ ? folded(r_, item) : item;
  }

 private:
  Renderer& r_;
  const List* parts_;  // in the heap, because a Getter there is not destroyed
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

/// An iterator over items that are known.
class Listed final : public Iterator {
 public:
  Listed(Renderer& r, const std::vector<Value>& items, std::string_view type)
      : items_(r.new_list(items).list), type_(type) {}
  bool next(Value& item) override {
    if (at_ >= items_->items.size()) return false;
    item = items_->items[at_++];
    return true;
  }
  std::string_view type_name() const override { return type_; }

 private:
  List* items_;
  std::string_view type_;
  std::size_t at_ = 0;
};

Value listed(Renderer& r, const std::vector<Value>& items, std::string_view type = "generator") {
  return iterator(r.heap().make<Listed>(r, items, type));
}

/// map, select and reject: their items are computed when they are read.
class Applied final : public Iterator {
 public:
  enum class What { map_attribute, map_filter, select } what;

  Applied(Renderer& r, What w, const Value& source) : what(w), r_(r), source_(source) {}
  bool next(Value& item) override {
    if (!started_) {
      started_ = true;
      if (!is_true(source_)) return false;
      iteration_ = r_.heap().make<Iteration>(r_, source_);
    }
    while (iteration_ != nullptr && iteration_->next(item)) {
      if (what == What::map_attribute) {
        item = (*getter)(item);
        return true;
      }
      Arguments call;
      call.positional.push_back(what == What::select && getter != nullptr ? (*getter)(item) : item);
      if (arguments != nullptr) {
        call.positional.insert(call.positional.end(), arguments->items.begin(), arguments->items.end());
      }
      if (named != nullptr) {
        for (const Dict::Entry& entry : named->entries) call.named.push_back({entry.key.text(), entry.value});
      }
      if (what == What::map_filter) {
        item = apply_filter(r_, name, call);
        return true;
      }
      const bool holds = name.is_missing() ? is_true(call.positional[0]) : apply_test(r_, name, call);
      if (holds == keeps) return true;
    }
    return false;
  }

  Getter* getter = nullptr;
  Value name{};
  List* arguments = nullptr;
  Dict* named = nullptr;
  bool keeps = true;

 private:
  Renderer& r_;
  Value source_;
  Iteration* iteration_ = nullptr;
  bool started_ = false;
};

Dict* named_arguments(Renderer& r, const Arguments& a) {
  Dict* const named = r.heap().make<Dict>(r.heap());
  for (const NamedArgument& argument : a.named) named->set(r.text(argument.name), argument.value);
  return named;
}

/// An iterator that fails when it is first read, as Python's generators do.
class Failing final : public Iterator {
 public:
  Failing(const Value& source, std::string_view message) : source_(source), message_(message) {}
  bool next(Value&) override {
    if (!is_true(source_)) return false;
    throw error("runtime", "{}", message_);
  }

 private:
  Value source_;
  std::string_view message_;
};

Value selected(Renderer& r, const Arguments& a, bool by_attribute, bool keeps) {
  Heap& heap = r.heap();
  auto* const made = heap.make<Applied>(r, Applied::What::select, a.positional[0]);
  std::size_t first = 1;
  if (by_attribute) {
    if (a.positional.size() < 2) {
      return iterator(heap.make<Failing>(a.positional[0], "Missing parameter for attribute name"));
    }
    made->getter = heap.make<Getter>(r, a.positional[1]);
    first = 2;
  }
  if (a.positional.size() > first) {
    made->name = a.positional[first];
    const auto rest = a.positional.begin() + static_cast<std::ptrdiff_t>(first) + 1;
    made->arguments = r.new_list({rest, a.positional.end()}).list;
    made->named = named_arguments(r, a);
  }
  made->keeps = keeps;
  return iterator(made);
}

}  // namespace

Value filter_map(Renderer& r, Arguments& a) {
  Heap& heap = r.heap();
  const Value source = a.positional[0];
  if (a.positional.size() == 1) {
    const Value attribute = a.take("attribute");
    if (attribute.is_missing()) return iterator(heap.make<Failing>(source, "map requires a filter argument"));
    const Value otherwise = a.take("default");
    if (!a.named.empty()) {
      return iterator(heap.make<Failing>(
          source, heap.copy(fmt::format("Unexpected keyword argument {}", repr_text(a.named[0].name)))));
    }
    auto* const made = heap.make<Applied>(r, Applied::What::map_attribute, source);
    made->getter = heap.make<Getter>(r, attribute, false, otherwise);
    return iterator(made);
  }
  auto* const made = heap.make<Applied>(r, Applied::What::map_filter, source);
  made->name = a.positional[1];
  made->arguments = r.new_list({a.positional.begin() + 2, a.positional.end()}).list;
  made->named = named_arguments(r, a);
  return iterator(made);
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

Value filter_random(Renderer& r, Arguments& a) {
  const auto [seq] = a.bind<1>("do_random", {"seq"}, 1);
  const std::int64_t size = r.length(seq);
  if (size < 0) throw type_error("object of type '{}' has no len()", type_name(seq));
  if (size == 0) return r.undefined_because("No random item, sequence was empty.");
  if (size == 1) return r.item(seq, integer(0));
  throw error("unsupported", "the filter 'random' is not supported: a rendering must not depend on chance");
}

Value filter_reverse(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_reverse", {"value"}, 1);
  if (value.is_string()) return r.slice(value, none(), none(), integer(-1));
  if (!is_iterable(value)) throw error("runtime", "argument must be iterable");
  std::vector<Value> items = r.items(value);
  std::reverse(items.begin(), items.end());
  if (value.is_undefined() || value.is(Kind::iterator)) return r.new_list(items);
  return listed(r, items, value.is(Kind::list) ? "list_reverseiterator" : "reversed");
}

Value filter_join(Renderer& r, Arguments& a) {
  const auto [value, d, attribute] = a.bind<3>("do_join", {"value", "d", "attribute"}, 1);
  std::vector<Value> items = r.items(value);
  if (!attribute.is_missing() && !attribute.is_none()) {
    const Getter getter(r, attribute);
    for (Value& item : items) item = getter(item);
  }
  std::string_view separator = d.is_missing() ? "" : r.str_of(d);
  bool escapes = false;
  if (r.autoescape()) {
    escapes = d.is_markup() || std::any_of(items.begin(), items.end(), [](const Value& v) { return v.is_markup(); });
    if (escapes && !d.is_markup()) separator = r.heap().copy(escaped(separator));
  }
  Draft out = r.new_draft();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    if (escapes && !items[i].is_markup()) {
      out += escaped(str(items[i]));
    } else if (items[i].is_string()) {
      out += items[i].text();
    } else {
      out += str(items[i]);
    }
    r.heap().check(out.size());
  }
  return r.text(out, escapes);
}

Value filter_items(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_items", {"value"}, 1);
  if (value.is_undefined()) return listed(r, {});
  if (!value.is(Kind::dict)) throw type_error("Can only get item pairs from a mapping.");
  return listed(r, r.items(view(r.heap(), View::What::items, value.dict)));
}

Value filter_dictsort(Renderer& r, Arguments& a) {
  const auto [value, case_sensitive, by, reverse] =
      a.bind<4>("do_dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  const std::string order = by.is_missing() ? "key" : str(by);
  if (order != "key" && order != "value") throw error("runtime", "You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::dict)) throw error("AttributeError", "'{}' object has no attribute 'items'", type_name(value));
  std::vector<Value> items = r.items(view(r.heap(), View::What::items, value.dict)), keys;
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
    std::string_view rest = attribute.text();
    for (std::size_t comma = 0; comma != rest.npos;) {
      comma = rest.find(',');
      getters.emplace_back(r, r.part(rest.substr(0, comma)), !is_true(case_sensitive));
      if (comma != rest.npos) rest.remove_prefix(comma + 1);
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
  return listed(r, kept);
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
    if (!fill_with.is_missing() && !fill_with.is_none()) {
      const std::int64_t wanted = to_index(linecount);
      r.heap().check(static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0)) * sizeof(Value));
      while (static_cast<std::int64_t>(current.size()) < wanted) current.push_back(fill_with);
    }
    batches.push_back(r.new_list(current));
  }
  return listed(r, batches);
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
    if (!fill_with.is_missing() && !fill_with.is_none() && i >= size % n) slice.push_back(fill_with);
    made.push_back(r.new_list(slice));
    begin = end;
  }
  return listed(r, made);
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
    made.list->is_group = true;
    groups.push_back(made);
  }
  return r.new_list(groups);
}

}  // namespace vitrine::jinja
