// CamemBERT, RoBERTa for French. Sources: Martin et al. 2019; transformers, models/camembert.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {

Family camembert_family() { return roberta_like("camembert", "CamembertForMaskedLM", "CamembertModel"); }

}  // namespace vitrine
