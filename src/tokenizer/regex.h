// The regexes of tokenizer files, run by PCRE2 with the meaning that they have in the engine they were written for.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/function_ref.h"

namespace vitrine {

/// Whose regex it is. Both agree in what \s is (Unicode's White_Space: without U+180E, which PCRE2 counts in) and \w.
enum class RegexSyntax {
  oniguruma,  ///< `tokenizers` (its default build; Ruby's syntax): ^ and $ stand at every line
  rust,       ///< tiktoken (fancy-regex): ^ and $ stand at the ends of the text
};

/// A compiled pattern. Immutable, for any number of threads.
class Regex {
 public:
  /// Throws BadCheckpoint where the pattern is malformed, Unsupported where it uses what is not translated; `where`
  /// names the file.
  Regex(std::string_view pattern, RegexSyntax syntax, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  /// Calls `visit` for every match, leftmost first, none overlapping another. `text` must be valid UTF-8. An empty
  /// match does not directly follow another match. Throws BadInput where a match takes more steps or memory than is
  /// sane.
  void for_each_match(std::string_view text, FunctionRef<void(Match)> visit) const;

 private:
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  struct Code;
  std::unique_ptr<Code> code_;
};

/// The pattern in PCRE2's syntax.
std::string translate_regex(std::string_view pattern, RegexSyntax syntax, std::string_view where);

}  // namespace vitrine
