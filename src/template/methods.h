// The methods of Python's str.
#pragma once

#include <string>
#include <string_view>

#include "template/format.h"
#include "template/renderer.h"

namespace vitrine::jinja {

/// The method of str, or of Markup, with a name, or null. Methods of Markup return Markup and escape their arguments.
Builtin* find_text_method(std::string_view name, bool is_markup);

/// The methods of methods_split.cpp.
Builtin text_split, text_rsplit, text_splitlines, text_partition, text_rpartition, text_center, text_ljust, text_rjust,
    text_zfill, text_expandtabs;

// What methods share: the first argument is the string that they belong to.
inline const Value& self_of(const Arguments& a) { return a.positional[0]; }
inline std::string_view text_of(const Arguments& a) { return a.positional[0].text(); }

/// A result: Markup if the method is one of Markup.
inline Value like_self(Renderer& r, const Arguments& a, std::string_view text) {
  return r.text(text, self_of(a).is_markup());
}
inline Value like_self(Renderer& r, const Arguments& a, const Draft& text) {
  return r.text(text, self_of(a).is_markup());
}
inline Value part_of_self(Renderer& r, const Arguments& a, std::string_view part) {
  return r.part(part, self_of(a).is_markup());
}

inline void no_arguments(const Arguments& a, const char* method) { a.bind<1>(method, {"self"}, 1); }
inline void no_keywords(const Arguments& a, const char* method) {
  if (!a.named.empty()) throw type_error("str.{}() takes no keyword arguments", method);
}

inline std::string_view text_argument(const Value& v, const char* method) {
  if (!v.is_string()) throw type_error("{}() argument must be str, not {}", method, type_name(v));
  return v.text();
}
/// An argument that Markup escapes.
inline std::string argument_text(const Arguments& a, const Value& v, const char* method) {
  const std::string_view text = text_argument(v, method);
  return self_of(a).is_markup() && !v.is_markup() ? escaped(text) : std::string(text);
}

}  // namespace vitrine::jinja
