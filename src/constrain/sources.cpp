#include "constrain/sources.h"

#include <optional>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {

std::string_view name(Source::Kind kind) {
  switch (kind) {
    case Source::Kind::schema:
      return "schema";
    case Source::Kind::json_object:
      return "json_object";
    case Source::Kind::regex:
      return "regex";
    case Source::Kind::choice:
      return "choice";
    case Source::Kind::grammar:
      return "grammar";
  }
  throw InternalError("constraint", "unknown kind");
}

Grammar parse_choice(std::span<const std::string> texts) {
  constexpr std::size_t kMaxTexts = 10'000;
  if (texts.empty() || texts.size() > kMaxTexts) {
    throw BadInput("choice", "expected 1 to {} texts, got {}", kMaxTexts, texts.size());
  }
  for (const std::string& text : texts) {
    if (!is_valid_utf8(text)) throw BadInput("choice", "expected UTF-8");
  }
  Grammar grammar;
  grammar.root = grammar.add_rule("choice");
  grammar.define(grammar.root, grammar.one_of({texts.begin(), texts.end()}));
  return grammar;
}

Grammar parse_source(const Source& source, const Vocabulary& vocabulary) {
  std::size_t n_bytes = source.text.size();
  for (const std::string& text : source.choices) n_bytes += text.size();
  if (n_bytes > kMaxSourceBytes) {
    throw OutOfCapacity(name(source.kind), "expected at most {} bytes, got {}", kMaxSourceBytes, n_bytes);
  }
  switch (source.kind) {
    case Source::Kind::schema:
      return parse_schema(source.text, source.has_white_space);
    case Source::Kind::json_object:
      return json_object(source.has_white_space);
    case Source::Kind::regex:
      return parse_regex_source(source.text);
    case Source::Kind::choice:
      return parse_choice(source.choices);
    case Source::Kind::grammar:
      return parse_gbnf(source.text, vocabulary);
  }
  throw InternalError("constraint", "unknown kind");
}

}  // namespace vitrine::constrain
