// Divides a template into tokens, with white space around tags removed as trim_blocks and lstrip_blocks do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine::jinja {

struct Token {
  enum class Type : unsigned char {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    sign,
    end
  } type;
  std::string text;  ///< of a string: its value
  int line;
};

/// The tokens of a template, without comments; the last one is `end`. Line breaks are read as LF, one at the end of the
/// template is dropped. Throws TemplateError (syntax).
std::vector<Token> tokenize(std::string_view source);

/// Decodes the escapes of a string literal. Throws TemplateError (syntax).
std::string unescape(std::string_view literal, int line);

}  // namespace vitrine::jinja
