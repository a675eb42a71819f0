// Masked tokens: the objective of BERT. Of the tokens that are chosen, 80 % are replaced by the mask, 10 % by a random
// token, and 10 % are kept; the model predicts what they were. Source: Devlin et al. 2018, section 3.1.
#pragma once

#include "data/dataset.h"

namespace vitrine {

struct MaskOptions {
  double fraction = 0.15;  ///< The probability that a token is chosen.
  std::int32_t mask_id = 0;
  std::int64_t vocab_size = 0;
  std::uint64_t seed = 0;
};

/// The batch with chosen inputs replaced, whose targets are the original inputs and count where they were chosen. The
/// choice depends on the seed, the batch's number and the row. `kept` (if any) is never chosen.
Batch masked(Batch batch, const MaskOptions& options, std::uint64_t number, std::optional<std::int32_t> kept);

}  // namespace vitrine
