// Metaspace: spaces written as a visible character, mostly U+2581; what its pre-tokenizer and its decoder share.
#pragma once

#include <string>

#include "tokenizer/json_fields.h"

namespace vitrine {

struct Metaspace {
  enum class Scheme { always, first, never };  ///< where one is put in front of a text that has none
  std::string replacement;
  Scheme scheme = Scheme::always;
  bool split = true;
};

/// Reads the fields, those of old files included (add_prefix_space, str_rep). Throws BadCheckpoint where they
/// contradict each other.
Metaspace parse_metaspace(const JsonFields& fields);

}  // namespace vitrine
