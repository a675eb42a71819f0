// A constraint on an answer: a set of texts, and which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "constrain/grammar.h"
#include "constrain/masker.h"
#include "constrain/stacks.h"
#include "constrain/vocabulary.h"

namespace vitrine::constrain {

/// What a constraint is made of.
struct Source {
  enum class Kind : std::uint8_t { schema, json_object, regex, choice, grammar };
  Kind kind = Kind::json_object;
  std::string text{};                  ///< Of a schema (JSON), a regex or a grammar.
  std::vector<std::string> choices{};  ///< The texts of a choice.
  bool has_white_space = true;         ///< Whether JSON may have white space between its parts.

  /// Sources with equal keys are equal.
  std::string key() const;
};

/// A compiled constraint. Thread-safe: texts share what has been found out about its states.
class Constraint {
 public:
  /// Throws BadInput for a source that is malformed or that no text satisfies, Unsupported for what is not supported,
  /// OutOfCapacity for one that is too large; each names the place in the source.
  Constraint(const Source& source, std::shared_ptr<const Vocabulary> vocabulary);
  /// The texts of a grammar; `name` is what messages call it.
  Constraint(const Grammar& grammar, std::string_view name, std::shared_ptr<const Vocabulary> vocabulary);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  /// The bytes of the shortest answer.
  Length shortest() const { return network_.rules[static_cast<std::size_t>(network_.root)].shortest; }
  std::size_t memory_bytes() const;

 private:
  friend class Matcher;

  std::shared_ptr<const Vocabulary> vocabulary_;
  Network network_;
  mutable std::mutex mutex_;
  mutable Frames frames_;
  mutable Stepper stepper_;
  mutable Masker masker_;
};

/// Where a text is in a constraint. Copies share the constraint.
class Matcher {
 public:
  enum class State : std::uint8_t {
    dead,      ///< begins no answer
    partial,   ///< begins an answer
    complete,  ///< is an answer, which may go on
  };

  explicit Matcher(std::shared_ptr<const Constraint> constraint);

  const Constraint& constraint() const { return *constraint_; }
  /// Appends bytes to the text.
  void append(std::string_view bytes);
  /// Appends a token: its bytes, or the token itself where a grammar names it. An id that is not text is dead
  /// otherwise.
  void append(std::int32_t id);

  State state() const;
  bool is_complete() const { return heads_.complete; }
  /// Whether the text is an answer and nothing can follow.
  bool must_end() const { return heads_.complete && heads_.list.empty(); }
  /// The bytes that complete the text; kNoWay if it is dead.
  Length shortest() const;
  /// The text tokens that may follow. `left`: the tokens that may still be written, the next one included, which must
  /// suffice to complete the answer; none: any number.
  Mask mask(std::optional<std::int64_t> left = std::nullopt);
  /// The text that must follow, as whole characters: up to where there are several ways to go on, or the answer may
  /// end.
  std::string forced(std::size_t max_bytes = 1 << 12);

 private:
  void compact();

  std::shared_ptr<const Constraint> constraint_;
  Stacks stacks_;
  Heads heads_;
  std::size_t n_kept_ = 0;  // bytes of the stacks after the last compaction
};

}  // namespace vitrine::constrain
