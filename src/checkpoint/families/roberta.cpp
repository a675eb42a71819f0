// RoBERTa alone, or with its head for masked tokens. Sources: Liu et al. 2019; transformers, models/roberta.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {

Family roberta_family() { return roberta_like("roberta", "RobertaForMaskedLM", "RobertaModel"); }

}  // namespace vitrine
