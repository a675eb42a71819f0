// BART. Sources: Lewis et al. 2019; transformers, models/bart (positions begin at row 2).
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family bart_family() {
  BartOptions options;
  options.first_position = 2;
  options.embedding_norm = true;
  return bart_like("bart", "BartForConditionalGeneration", options);
}

}  // namespace vitrine
