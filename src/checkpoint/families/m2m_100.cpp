// M2M-100 and NLLB-200. Sources: Fan et al. 2020; NLLB Team 2022; transformers, models/m2m_100.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family m2m_100_family() {
  BartOptions options;
  options.positions = BartOptions::Positions::tensor2tensor;
  options.counts_pads = false;
  options.pre_norm = true;
  options.scaled_embedding = true;
  options.activation = "relu";
  return bart_like("m2m_100", "M2M100ForConditionalGeneration", options);
}

}  // namespace vitrine
