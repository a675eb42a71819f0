// The parts that families of encoder–decoders share.
#pragma once

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

/// How BART's relatives differ.
struct BartOptions {
  enum class Positions : std::uint8_t { learned, halves, tensor2tensor };

  Positions positions = Positions::learned;  ///< Or sinusoids, in that order of their elements.
  std::int64_t first_position = 0;
  bool pre_norm = false;  ///< Norms before the sublayers and a final one, instead of norms of the residual sums.
  bool embedding_norm = false;
  bool scaled_embedding = false;  ///< The default of scale_embedding.
  std::int64_t pad_id = 1;        ///< The default of pad_token_id.
  bool counts_pads = true;        ///< In the positions of a source.
  std::string_view activation = "gelu";
};

/// Reads a config.json with BART's keys.
ModelConfig read_bart(ConfigReader& c, const BartOptions& options);
/// A family with BART's tensor names and keys.
Family bart_like(std::string_view model_type, std::string_view architecture, const BartOptions& options);

/// Reads T5's config.json. `scales_tied_logits`: tied logits are divided by √d_model.
ModelConfig read_t5(ConfigReader& c, bool scales_tied_logits);
/// A family with T5's tensor names. `encoder_alone` is the class of the encoder without the decoder: a model without a
/// head.
Family t5_like(std::string_view model_type, std::string_view architecture, std::string_view encoder_alone,
               bool scales_tied_logits);

}  // namespace vitrine
