// The filters and tests of jinja2 and the methods of Python's values, by name. Each takes its value as the first
// argument. A name that jinja2 or Python knows and vitrine does not have is in the lists as `refused`: the error that
// its use gives names it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "template/renderer.h"

namespace vitrine::jinja {

/// A function and its name.
struct NamedBuiltin {
  std::string_view name;
  Builtin* run;
};
/// The function with a name in a sorted list, or null.
template <std::size_t n>
Builtin* find_builtin(const NamedBuiltin (&list)[n], std::string_view name) {
  const auto* const found =
      std::lower_bound(list, list + n, name, [](auto& entry, auto& wanted) { return entry.name < wanted; });
  return found != list + n && found->name == name ? found->run : nullptr;
}

/// Stands for a filter, test or method that is not supported. Never called.
Builtin refused;
/// Stands for a method that would change its value, which the sandbox forbids. Never called.
Builtin unsafe_method;

/// The function with a name, `refused`, `unsafe_method`, or null.
Builtin* find_filter(std::string_view name);
Builtin* find_test(std::string_view name);
Builtin* find_method(const Value& value, std::string_view name);
Builtin* find_text_method(std::string_view name);
/// Names such as `__class__`, which are not for templates.
inline bool is_internal_name(std::string_view name) { return name.starts_with("__") && name.ends_with("__"); }
/// Whether `x.name` of a dict can only mean a key.
bool is_only_key(std::string_view name);

// filters of text
Builtin filter_capitalize, filter_center, filter_escape, filter_forceescape, filter_format, filter_indent, filter_lower,
    filter_replace, filter_safe, filter_string, filter_title, filter_trim, filter_truncate, filter_upper,
    filter_wordcount;
// filters of sequences
Builtin filter_batch, filter_dictsort, filter_first, filter_groupby, filter_items, filter_join, filter_last,
    filter_length, filter_list, filter_map, filter_max, filter_min, filter_reject, filter_rejectattr, filter_reverse,
    filter_select, filter_selectattr, filter_slice, filter_sort, filter_sum, filter_unique;
// methods of text that filters use
Builtin text_center, text_replace, text_strip;

/// str(value) of a filter's argument; Markup stays Markup.
inline Value soft_string(Renderer& renderer, const Value& value) {
  return value.is_string() ? value : renderer.part(renderer.str_of(value));
}
/// Text made from `like`: Markup if that is.
inline Value text_like(Renderer& renderer, const Value& like, std::string_view text) {
  return renderer.text(text, like.is_markup());
}
inline Value text_like(Renderer& renderer, const Value& like, const Draft& text) {
  return renderer.text(text, like.is_markup());
}
/// A part of the text of `like`.
inline Value part_of(Renderer& renderer, const Value& like, std::string_view part) {
  return renderer.part(part, like.is_markup());
}

}  // namespace vitrine::jinja
