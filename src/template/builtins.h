// The built-in filters of jinja2, and what several of them share. Each takes its value as the first argument.
#pragma once

#include <optional>
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
  std::size_t low = 0, high = n;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = list[middle].name.compare(name);
    if (order == 0) return list[middle].run;
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

// filters of text
Builtin filter_capitalize, filter_center, filter_escape, filter_filesizeformat, filter_forceescape, filter_format,
    filter_indent, filter_lower, filter_replace, filter_safe, filter_string, filter_striptags, filter_title,
    filter_trim, filter_truncate, filter_upper, filter_urlencode, filter_urlize, filter_wordcount, filter_wordwrap,
    filter_xmlattr;
// filters of sequences
Builtin filter_batch, filter_dictsort, filter_first, filter_groupby, filter_items, filter_join, filter_last,
    filter_length, filter_list, filter_map, filter_max, filter_min, filter_random, filter_reject, filter_rejectattr,
    filter_reverse, filter_select, filter_selectattr, filter_slice, filter_sort, filter_sum, filter_unique;
// filters of any value
Builtin filter_abs, filter_attr, filter_default, filter_float, filter_int, filter_pprint, filter_round, filter_tojson;

/// Text without tags and comments, its entities read, its white space joined: Markup.striptags().
std::string without_tags(std::string_view text);
/// Markup.unescape().
std::string unescaped(std::string_view text);

/// Applies a filter or test that is given by name, as `map` and `select` do.
Value apply_filter(Renderer& renderer, const Value& name, Arguments& arguments);
bool apply_test(Renderer& renderer, const Value& name, Arguments& arguments);

/// int(value, base) and float(value), if Python can convert the value. Throw TemplateError for values that have no
/// conversion at all (`undefined`).
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);
std::optional<double> parse_real(std::string_view text);

/// str(value) of a filter's argument; Markup stays Markup.
Value soft_string(Renderer& renderer, const Value& value);

}  // namespace vitrine::jinja
