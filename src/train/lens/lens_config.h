// The [lens] table of a training config: a lens that learns (inspect/trained_lens.h). docs/lens.md explains the keys.
#pragma once

#include <cstdint>
#include <string>

#include "inspect/trained_lens.h"
#include "train/config_section.h"

namespace vitrine {

struct LensTraining {
  LensKind kind = LensKind::tuned;
  std::string start;                       ///< Of a tuned lens: one to start from; "": zeros.
  std::int64_t skip_first_positions = 16;  ///< Of a Jacobian lens, as TransformerLens names them.
  std::int64_t dim_batch = 8;              ///< The same: rows of a Jacobian that are computed together.

  bool operator==(const LensTraining&) const = default;
};

/// Throws BadInput as read_train_config() does.
LensTraining read_lens_training(ConfigSection& section);

}  // namespace vitrine
