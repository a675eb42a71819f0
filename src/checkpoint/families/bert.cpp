// BERT: alone, with its head for masked tokens, or with all layers of the pre-training. Sources: Devlin et al. 2018;
// transformers, models/bert.
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {

Family bert_family() {
  Family family = bert_like("bert", "BertForMaskedLM", "bert.", [](ConfigReader& c) { return read_bert(c); });
  family.others = {"BertForPreTraining", "BertModel"};
  add_tensors(family.tensors, {{"cls.predictions.transform.dense", {"head.dense"}},
                               {"cls.predictions.transform.LayerNorm", {"head.ln"}},
                               {"cls.predictions", {"unembed"}}});
  family.tensors.push_back({"cls.predictions.decoder", {"unembed"}});
  family.tasks = pooled_classes("{p}pooler.dense", Activation::tanh, "classifier", "{p}pooler.dense");
  return family;
}

}  // namespace vitrine
