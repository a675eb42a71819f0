// mT5: T5 1.1 in many languages, and its encoder alone. Sources: Xue et al. 2020; transformers, models/mt5.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family mt5_family() { return t5_like("mt5", "MT5ForConditionalGeneration", "MT5EncoderModel", false); }

}  // namespace vitrine
