#include "tokenizer/metaspace.h"

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {

Metaspace parse_metaspace(const JsonFields& fields) {
  fields.allow({"type", "replacement", "prepend_scheme", "add_prefix_space", "str_rep", "split"});
  Metaspace m;
  m.replacement = fields.string("replacement");
  if (m.replacement.empty() || character_length(m.replacement) != m.replacement.size()) {
    throw BadCheckpoint(fields.where(), "expected one character as the replacement of Metaspace, got \"{}\"",
                        m.replacement);
  }
  const std::string scheme = fields.string("prepend_scheme", "always");
  if (scheme == "first") {
    m.scheme = Metaspace::Scheme::first;
  } else if (scheme == "never") {
    m.scheme = Metaspace::Scheme::never;
  } else if (scheme != "always") {
    throw Unsupported(fields.where(), "the prepend_scheme \"{}\" is not supported", scheme);
  }
  if (!fields.boolean("add_prefix_space", true)) {
    if (fields.find("prepend_scheme") != nullptr && scheme != "never") {
      throw BadCheckpoint(fields.where(), "add_prefix_space false and prepend_scheme \"{}\" contradict each other",
                          scheme);
    }
    m.scheme = Metaspace::Scheme::never;
  }
  m.split = fields.boolean("split", true);
  return m;
}

void append_with_spaces_as(std::string_view mark, std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == ' ') {
      out += mark;
    } else {
      out += c;
    }
  }
}

}  // namespace vitrine
