// mBART and mBART-50. Sources: Liu et al. 2020; Tang et al. 2020; transformers, models/mbart.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family mbart_family() {
  BartOptions options;
  options.first_position = 2;
  options.embedding_norm = true;
  options.pre_norm = true;
  return bart_like("mbart", "MBartForConditionalGeneration", options);
}

}  // namespace vitrine
