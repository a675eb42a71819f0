// The regexes of tokenizer files. PCRE2 executes them with the semantics of the engine for which they were written.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "tokenizer/function_ref.h"

namespace vitrine {

/// The engine for which a regex was written. Both agree on \s (Unicode's White_Space; PCRE2's adds U+180E); \w of
/// Oniguruma adds ² ³ ¹ ¼ ½ ¾ outside bracketed classes.
enum class RegexSyntax {
  oniguruma,  ///< `tokenizers` in its default build, with Ruby's syntax: ^ and $ match at every line
  rust,       ///< tiktoken (fancy-regex): ^ and $ match only at the ends of the text
};

/// A compiled pattern. Immutable and thread-safe.
class Regex {
 public:
  /// Throws BadCheckpoint if the pattern is malformed, Unsupported if it uses a construct that is not translated.
  /// `where` names the file in errors.
  Regex(std::string_view pattern, RegexSyntax syntax, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  /// Calls `visit` for the non-overlapping matches from left to right. An empty match does not directly follow another
  /// match. `text` must be valid UTF-8. Throws BadInput if a match exceeds PCRE2's limits of steps or memory.
  void for_each_match(std::string_view text, FunctionRef<void(Match)> visit) const;

 private:
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  struct Code;
  std::unique_ptr<Code> code_;
};

/// The pattern in PCRE2's syntax. Throws as the constructor of Regex does.
std::string translate_regex(std::string_view pattern, RegexSyntax syntax, std::string_view where);

/// A string, which must not be empty, or a regex.
using Pattern = std::variant<std::string, Regex>;

/// Calls `visit` for the non-overlapping matches of `pattern` from left to right.
void for_each_match(const Pattern& pattern, std::string_view text, FunctionRef<void(Regex::Match)> visit);

}  // namespace vitrine
