// Pegasus. Sources: Zhang et al. 2019; transformers, models/pegasus.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family pegasus_family() {
  BartOptions options;
  options.positions = BartOptions::Positions::halves;
  options.pre_norm = true;
  options.pad_id = 0;
  return bart_like("pegasus", "PegasusForConditionalGeneration", options);
}

}  // namespace vitrine
