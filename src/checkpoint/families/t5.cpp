// T5 1.0, T5 1.1 and Flan-T5, and the encoder alone, as embedding models have it. Sources: Raffel et al. 2019; Chung et
// al. 2022; transformers, models/t5.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family t5_family() { return t5_like("t5", "T5ForConditionalGeneration", "T5EncoderModel", true); }

}  // namespace vitrine
