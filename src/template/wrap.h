// Python's textwrap, and jinja2's links in text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::jinja {

/// textwrap.wrap(line, width, expand_tabs=False, replace_whitespace=False, …). Throws TemplateError (ValueError) for a
/// width below 1.
std::vector<std::string> wrap_line(std::string_view line, std::int64_t width, bool break_long_words,
                                   bool break_on_hyphens);

}  // namespace vitrine::jinja
