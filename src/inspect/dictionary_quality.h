// How well dictionaries of features reconstruct their sites over a text, and what the model loses with the
// reconstructions in place of them. Definitions are those of SAELens's evals (decoderesearch/SAELens,
// sae_lens/evals.py; the bias is equation 10 of Rajamanoharan et al. 2024), with all tokens as one batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/context.h"
#include "pass/dictionary.h"

namespace vitrine {

class WindowRun;

/// y is the value of the site, or of one head, ŷ its reconstruction; means over tokens. A ratio without a meaning, such
/// as the cosine of a ŷ of zeros, is NaN.
struct ReconstructionQuality {
  double explained_variance = 0;  ///< 1 − Σ‖y − ŷ‖² / Σ‖y − mean y‖²
  double mse = 0;                 ///< ‖y − ŷ‖², summed over the elements of a token.
  double cossim = 0;
  double l2_norm_in = 0, l2_norm_out = 0;   ///< ‖y‖, ‖ŷ‖
  double l2_ratio = 0;                      ///< ‖ŷ‖ / ‖y‖, or ‖ŷ‖ where ‖y‖ < 1e-4.
  double relative_reconstruction_bias = 0;  ///< mean ‖ŷ‖² / mean y · ŷ
};

/// Of the model as it is, with ŷ in place of y (`with`), and with zeros in place of y at every token (`ablated`). The
/// loss of a token is that of the next one in its window. In nats.
struct PreservationQuality {
  double loss_without = 0, loss_with = 0, loss_ablated = 0;
  double kl_with = 0, kl_ablated = 0;  ///< KL(model as it is ‖ changed model)

  double loss_score() const { return (loss_ablated - loss_with) / (loss_ablated - loss_without); }
  double kl_score() const { return (kl_ablated - kl_with) / kl_ablated; }
};

struct DictionaryQuality {
  const Dictionary* dictionary = nullptr;
  std::int64_t tokens = 0;  ///< That count: those at which the dictionary is not skipped.
  double l0 = 0, l1 = 0;    ///< Active features of a token, and the sum of their magnitudes.
  ReconstructionQuality reconstruction{};
  PreservationQuality preservation{};
  std::vector<std::int64_t> n_active{};  ///< `[d_sae]`: the number of tokens at which a feature is active.

  std::int64_t dead() const;  ///< Features that are active at no token.
};

/// Sums over the windows of a text. Each window takes a pass that all dictionaries read, and two more for each
/// dictionary. Memory does not grow with the text.
class DictionaryEvaluation {
 public:
  /// Evaluates the context's dictionaries; their use is ignored, the tokens that they skip do not count. Throws
  /// Unsupported for models that do not continue texts.
  explicit DictionaryEvaluation(const GenerateContext& context);
  DictionaryEvaluation(const DictionaryEvaluation&) = delete;
  DictionaryEvaluation& operator=(const DictionaryEvaluation&) = delete;
  ~DictionaryEvaluation();

  /// Adds the tokens of a window from `first_row` + 1 on, and the one at `first_row` if it is 0 (ScoreWindow). Returns
  /// Σ −log p of the ids after `first_row`, by the model as it is. Throws what a forward throws.
  double add(std::span<const std::int32_t> ids, std::int64_t first_row);

  /// In the order of the context's dictionaries. Throws BadInput if no token counts.
  std::vector<DictionaryQuality> results() const;

 private:
  struct Sums;
  class Reader;
  double compare(std::size_t number, std::span<const std::int32_t> ids, std::int64_t first_row, WindowRun& plain);

  GenerateContext context_;
  std::vector<AppliedDictionary> reading_;  // all, none of which changes its site
  std::vector<Sums> sums_;
};

}  // namespace vitrine
