// The answer of a request under a constraint: which tokens may come next, and what the constraint takes away.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "constrain/constraint.h"
#include "constrain/stable_tokens.h"

namespace vitrine {

/// A constraint on the answer of a request.
struct AnswerConstraint {
  std::shared_ptr<const constrain::Constraint> constraint{};  ///< Null: none.
  /// A token is allowed only if the tokens after it suffice for the shortest completion, a byte each.
  bool must_finish = true;
  /// It permits any text, so that an answer which ends at the last token is cut off, unless nothing can follow.
  bool is_open = false;
  /// If not null, text that must follow is written in the tokenizer's own tokens, without being drawn.
  std::shared_ptr<const constrain::StableTokens> fast_forward{};
};

/// What is wrong with `max_tokens` that are too few for any answer; "" if they are enough.
std::string why_too_few(const AnswerConstraint& answer, std::int64_t max_tokens);

/// The tokens that may come next.
struct AllowedTokens {
  constrain::Mask text;     ///< Tokens that are text, or named by a grammar.
  bool stops = false;       ///< The answer may end here.
  std::int64_t n_text = 0;  ///< Of `text`.
  std::span<const std::int32_t> stop_ids{};

  bool contains(std::int32_t id) const;
};

class ConstrainedText {
 public:
  explicit ConstrainedText(const AnswerConstraint& of) : of_(of), matcher_(of.constraint) {}

  /// `left`: how many tokens may still be written. `stop_ids`: any of them ends the text. Computed once for each token
  /// of the text and number of tokens left; valid until the next call of a function that is not const.
  const AllowedTokens& allowed(std::int64_t left, std::span<const std::int32_t> stop_ids);
  void append(std::int32_t id) {
    matcher_.append(id);
    next_.reset();
  }
  /// The ids that must come next, before the last token of the answer: where only one id may follow, that one; with
  /// fast_forward the tokens of text that must follow. At most `most`, of `left` tokens that may still be written. Each
  /// has been appended; `before` receives the tokens that were allowed in its place, unless it is null.
  std::vector<std::int32_t> take_forced(std::int64_t left, std::span<const std::int32_t> stop_ids, std::int64_t most,
                                        std::vector<AllowedTokens>* before);
  bool is_complete() const { return matcher_.is_complete(); }
  /// It is an answer, and nothing can follow.
  bool must_end() const { return matcher_.must_end(); }

 private:
  /// The next id that must come, if one must.
  std::optional<std::int32_t> forced(const AllowedTokens& allowed);

  /// What may come next, if `left` tokens may still be written.
  struct Next {
    std::int64_t left;
    AllowedTokens tokens;
  };

  AnswerConstraint of_;
  constrain::Matcher matcher_;
  std::optional<Next> next_;
  std::deque<std::int32_t> ahead_;  // tokens of text that must follow, not appended yet
};

/// Excludes every other token: its score becomes −∞.
void exclude_others(const AllowedTokens& allowed, std::span<float> scores);
/// Σ softmax(logits) over the other tokens, in double precision, in the order of ids.
double removed_probability(const AllowedTokens& allowed, std::span<const float> logits);

}  // namespace vitrine
