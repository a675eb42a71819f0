// The notations of constraints: each is read into a Grammar.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/constraint.h"
#include "constrain/grammar.h"
#include "constrain/schema/notation.h"

namespace vitrine::constrain {

/// "schema", "regex" and so on, as in messages.
std::string_view name(Source::Kind kind);

Grammar parse_source(const Source& source, const Vocabulary& vocabulary);

/// A regex of ECMAScript with the flag u, which the whole text must match.
Grammar parse_regex_source(std::string_view regex);

/// One of `texts`, 1 to 10,000.
Grammar parse_choice(std::span<const std::string> texts);

/// GBNF as llama.cpp reads it.
Grammar parse_gbnf(std::string_view text, const Vocabulary& vocabulary);

/// A JSON Schema; see docs/constraints.md.
Grammar parse_schema(std::string_view json, bool has_white_space);

/// The objects that a JSON Schema permits, in the notation that `notation` makes of the grammar; null: as JSON.
Grammar parse_arguments(std::string_view json, const std::function<Notation(Grammar&)>& notation);

/// Any JSON object, at most 16 levels deep.
Grammar json_object(bool has_white_space);

}  // namespace vitrine::constrain
