// The encoder of mT5 alone, as embedding models have it. Source: transformers, models/mt5.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family mt5_encoder_family() { return t5_encoder_like("mt5", "MT5EncoderModel"); }

}  // namespace vitrine
