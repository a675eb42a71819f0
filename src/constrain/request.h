// What a constraint permits after a text, as JSON: the answers of `vitrine constrain`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "constrain/constraint.h"

namespace vitrine::constrain {

/// A constraint, and a text whose continuations are wanted.
struct Request {
  Source source{};
  std::string text{};                              ///< Any bytes.
  std::optional<std::vector<std::int32_t>> ids{};  ///< Instead of the text.
  std::optional<std::int64_t> left{};              ///< See Matcher::mask().
  bool follows = false;                            ///< Whether the masks before each token of the text are wanted.
  bool wants_mask = true;
};

/// Reads a request as JSON. Throws BadInput for unknown or wrong members.
Request parse_request(std::string_view json, std::string_view where);

/// What Request asks for, as docs/constraints.md describes it, and the mask.
struct Answer {
  Json json;
  Mask mask;
};

/// The answer to a request. `tokenizer` is that of `vocabulary`. Throws what Constraint throws.
Answer answer(const Request& request, const Tokenizer& tokenizer, std::shared_ptr<const Vocabulary> vocabulary);

/// The texts of a choice: a JSON list, or one a line.
std::vector<std::string> parse_choices(std::string_view text);

}  // namespace vitrine::constrain
