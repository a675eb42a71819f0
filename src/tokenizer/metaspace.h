// Metaspace writes spaces as a visible character, usually U+2581. Its pre-tokenizer and its decoder share this file.
#pragma once

#include <string>

#include "tokenizer/read/json_fields.h"

namespace vitrine {

struct Metaspace {
  enum class Scheme { always, first, never };  ///< when a space is prepended: to any text, only to the first one, never
  std::string replacement;
  Scheme scheme = Scheme::always;
  bool split = true;
};

/// Reads the fields, including those of older files (add_prefix_space, str_rep). Throws BadCheckpoint if they
/// contradict each other, Unsupported for an unknown prepend_scheme.
Metaspace parse_metaspace(const JsonFields& fields);

/// Appends `text` with each space replaced by `mark`.
void append_with_spaces_as(std::string_view mark, std::string_view text, std::string& out);

}  // namespace vitrine
