// XLM-RoBERTa alone, or with its head for masked tokens. Sources: Conneau et al. 2019; transformers,
// models/xlm_roberta.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {

Family xlm_roberta_family() { return roberta_like("xlm-roberta", "XLMRobertaForMaskedLM", "XLMRobertaModel"); }

}  // namespace vitrine
