// Marian, with one vocabulary or two. Sources: Junczys-Dowmunt et al. 2018; Tiedemann & Thottingal 2020 (OPUS-MT);
// transformers, models/marian.
#include "checkpoint/hugging_face/encoder_decoder_parts.h"

namespace vitrine {

Family marian_family() {
  BartOptions options;
  options.positions = BartOptions::Positions::halves;
  options.pad_id = 58100;
  return bart_like("marian", "MarianMTModel", options);
}

}  // namespace vitrine
