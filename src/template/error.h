// The errors of templates: what the reference refuses, and by which exception.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace vitrine {

/// A template cannot be parsed or rendered. `what()` is one line, `message()` is the whole text: for `raised`, exactly
/// what the template passed to `raise_exception`.
class TemplateError : public BadInput {
 public:
  TemplateError(std::string_view kind, std::string message)
      : BadInput("template", "{}", message), kind_(kind), message_(std::move(message)) {}
  /// An error at a line of the template's source.
  TemplateError(std::string_view kind, std::string message, int line)
      : BadInput("template", "{} (line {})", message, line), kind_(kind), message_(std::move(message)) {}

  /// `raised`, `syntax`, `undefined`, `security`, `runtime`, or the name of Python's exception. `limit` and
  /// `unsupported` are vitrine's own: a bound was reached, or a feature of Python's is missing.
  const std::string& kind() const { return kind_; }
  const std::string& message() const { return message_; }

 private:
  std::string kind_, message_;
};

namespace jinja {

template <class... Args>
TemplateError error(std::string_view kind, fmt::format_string<Args...> format, Args&&... args) {
  return {kind, fmt::format(format, std::forward<Args>(args)...)};
}
/// A feature of Jinja or of Python that is known, but not supported.
inline TemplateError unsupported(std::string_view what, std::string_view name, int line = 0) {
  std::string message = fmt::format("{} \"{}\": not supported", what, name);
  return line > 0 ? TemplateError("unsupported", std::move(message), line)
                  : TemplateError("unsupported", std::move(message));
}
inline TemplateError syntax_error(std::string message, int line) { return {"syntax", std::move(message), line}; }
template <class... Args>
TemplateError type_error(fmt::format_string<Args...> format, Args&&... args) {
  return {"TypeError", fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args>
TemplateError value_error(fmt::format_string<Args...> format, Args&&... args) {
  return {"ValueError", fmt::format(format, std::forward<Args>(args)...)};
}

/// Bounds a recursion: counts in `depth` for as long as it exists. Throws TemplateError ("limit") beyond `max`.
class Nested {
 public:
  Nested(int& depth, int max, const char* what) : depth_(depth) {
    if (depth_ >= max) throw error("limit", "expected {} nested at most {} deep", what, max);
    ++depth_;
  }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int& depth_;
};

}  // namespace jinja
}  // namespace vitrine
