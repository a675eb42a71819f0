// The encoder of T5 alone, as embedding models have it. Source: transformers, models/t5.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family t5_encoder_family() { return t5_encoder_like("t5", "T5EncoderModel"); }

}  // namespace vitrine
