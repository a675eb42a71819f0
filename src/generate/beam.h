// Beam search: of all texts that extend the beams by one token, the most probable ones are the next beams.
//
//   score of a text = Σ log p(token) / length^A      over its new tokens, the stop id counted; A the length penalty
//
// Each step takes the 2 · n_beams most probable extensions (more if several ids end a text). Those among the first
// n_beams that end are hypotheses, of which the n_beams with the best scores are kept; the others that do not end are
// the next beams. The search ends when no beam can become better than the worst hypothesis, by a bound that EarlyStop
// selects. Source: transformers, generation/utils.py (_beam_search): the same hypotheses and scores for one text.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vitrine {

/// When a search with n_beams hypotheses ends. no: no beam has a better score at its present length than the worst
/// hypothesis. yes: at once. never: as no, but a positive length penalty assumes the greatest length.
enum class EarlyStop : std::uint8_t { no, yes, never };

struct BeamConfig {
  int n_beams = 1;
  int n_best = 1;  ///< Hypotheses to return.
  double length_penalty = 1;
  EarlyStop early_stop = EarlyStop::no;

  /// Throws BadInput for numbers below 1, more hypotheses than beams, and a penalty that is not finite.
  void validate() const;
};

/// An extension of a beam by one token.
struct Extension {
  int beam = 0;
  std::int32_t id = 0;
  double sum = -std::numeric_limits<double>::infinity();  ///< Σ log p of the extended text.
};

/// A text that has ended.
struct Hypothesis {
  std::vector<std::int32_t> ids;  ///< New tokens, without the stop id.
  double score = 0;
  bool stopped = false;  ///< By a stop id, not by its length.
};

class BeamSearch {
 public:
  /// `max_tokens`: of a text's new tokens, at least 1. Any of `stop_ids` ends a text.
  BeamSearch(const BeamConfig& config, std::int64_t max_tokens, std::vector<std::int32_t> stop_ids);

  /// The number of extensions that a step needs, of all beams and of each of them.
  int n_extensions() const { return n_extensions_; }
  /// Takes the most probable extensions of each beam, in any order. Returns false when the search has ended.
  bool step(std::vector<Extension> extensions);
  /// The beams after a step: the extension that each of them is. Initially one beam, without tokens.
  std::span<const Extension> beams() const { return beams_; }
  /// The best hypotheses, best first.
  std::vector<Hypothesis> hypotheses() const;

 private:
  bool is_stop(std::int32_t id) const;
  double score(double sum, std::int64_t length) const;
  void end_text(const Extension& extension);
  bool can_improve() const;

  BeamConfig config_;
  std::int64_t max_tokens_;
  std::vector<std::int32_t> stop_ids_;
  int n_extensions_;
  std::int64_t length_ = 0;  // of the beams
  bool may_improve_ = true;
  std::vector<Extension> beams_ = {{0, 0, 0}};
  std::vector<std::vector<std::int32_t>> texts_ = {{}};  // of the beams
  std::vector<Hypothesis> ended_;                        // best first
};

/// Appends the `n` most probable extensions of a beam with the sum `sum` by one token. `scores` are log-probabilities,
/// −∞ for tokens that are excluded; of equal ones the lower id comes first.
void add_extensions(std::span<const float> scores, int n, int beam, double sum, std::vector<Extension>& extensions);

}  // namespace vitrine
