// Metaspace: spaces written as a visible character, usually U+2581. Used by its pre-tokenizer and its decoder.
#pragma once

#include <string>

#include "tokenizer/json_fields.h"

namespace vitrine {

struct Metaspace {
  enum class Scheme { always, first, never };  ///< before which texts that do not begin with a space one is added
  std::string replacement;
  Scheme scheme = Scheme::always;
  bool split = true;
};

/// Reads the fields, including those of older files (add_prefix_space, str_rep). Throws BadCheckpoint if they
/// contradict each other.
Metaspace parse_metaspace(const JsonFields& fields);

/// Appends `text` with each space replaced by `mark`.
void append_with_spaces_as(std::string_view mark, std::string_view text, std::string& out);

}  // namespace vitrine
