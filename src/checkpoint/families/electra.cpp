// ELECTRA: BERT whose embeddings may be narrower than the stream. Its discriminator says of each token whether it was
// replaced; its generator predicts masked tokens. Sources: Clark et al. 2020; transformers, models/electra.
#include "base/error.h"
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

ModelConfig read_electra(ConfigReader& c) {
  for (const char* key : {"summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"}) {
    c.ignore(key);  // of choices, which read_choice() reads
  }
  ModelConfig model = read_bert(c, Activation::gelu_erf);
  model.pooler.reset();
  const std::int64_t width = c.size_or("embedding_size", 128);
  model.head.transform->width = width;
  model.head.transform->norm = *model.embedding.norm;
  if (width == model.d_model) return model;
  model.embedding.width = width;
  model.embedding.projects_sum = true;
  return model;
}

/// The summary that a choice is made from.
void read_choice(ConfigReader& c, const ModelConfig&, TaskHead& head) {
  c.expect(c.text_or("summary_type", "first") == "first", "summary_type", "first");
  c.expect(c.flag_or("summary_use_proj", true), "summary_use_proj", "true");
  if (c.text_or("summary_activation", "gelu") != "gelu")
    head.activation = read_activation(c, "summary_activation", "gelu");
}

/// The discriminator: one output for each token.
void read_discriminator(ConfigReader& c, const ModelConfig&, TaskHead& head) {
  head.activation = read_activation(c, "hidden_act", "gelu");
  head.labels = {"replaced"};
}

}  // namespace

Family electra_family() {
  Family family = bert_like("electra", "ElectraForMaskedLM", "electra.", read_electra);
  family.others = {"ElectraModel"};
  add_tensors(family.tensors, {{"{p}embeddings_project", {"embed_proj"}},
                               {"generator_predictions.dense", {"head.dense"}},
                               {"generator_predictions.LayerNorm", {"head.ln"}},
                               {"generator_lm_head", {"unembed"}}});
  family.tasks = row_classes();
  const TaskHead classes{.activation = Activation::gelu_erf};
  TaskHead choices = classes, replaced{.task = TaskHead::Task::tag, .pool = TaskHead::Pool::none};
  choices.task = TaskHead::Task::choose;
  family.tasks.push_back({"ForSequenceClassification",
                          classes,
                          {{"classifier.dense", {"head.dense"}}, {"classifier.out_proj", {"head.out"}}},
                          true});
  family.tasks.push_back({"ForMultipleChoice",
                          choices,
                          {{"sequence_summary.summary", {"head.dense"}}, {"classifier", {"head.out"}}},
                          true,
                          read_choice});
  family.tasks.push_back({"ForPreTraining",
                          replaced,
                          {{"discriminator_predictions.dense", {"head.dense"}},
                           {"discriminator_predictions.dense_prediction", {"head.out"}}},
                          true,
                          read_discriminator});
  return family;
}

}  // namespace vitrine
