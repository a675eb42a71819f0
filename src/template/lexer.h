// Divides a template into tokens, with white space around tags removed as trim_blocks and lstrip_blocks do.
#pragma once

#include <string_view>
#include <vector>

#include "template/heap.h"

namespace vitrine::jinja {

struct Token {
  enum class Type : unsigned char {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    string,
    integer,
    real,
    end,
    name,
    sign
  } type;
  std::string_view text;  ///< of a string: its value
  int line;
};

/// The tokens of a template, without comments; the last one is `end`. Line breaks are read as LF, one at the end of the
/// template is dropped. `heap` keeps the texts of the tokens. Throws TemplateError (syntax).
std::vector<Token> tokenize(Heap& heap, std::string_view source);

}  // namespace vitrine::jinja
