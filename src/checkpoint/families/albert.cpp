// ALBERT: BERT with narrow embeddings, whose layers share the parameters of their group. Sources: Lan et al. 2020;
// transformers, models/albert.
#include "base/error.h"
#include "checkpoint/hugging_face/encoder_parts.h"

namespace vitrine {
namespace {

ModelConfig read_albert(ConfigReader& c) {
  for (const char* key :
       {"classifier_dropout_prob", "down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"}) {
    c.ignore(key);  // training, and keys of the first files without effect
  }
  c.expect(c.size_or("inner_group_num", 1) == 1, "inner_group_num", "1");
  const Activation activation = read_activation(c, "hidden_act", "gelu_new");
  ModelConfig model = read_bert(c, activation);
  for (DenseConfig* dense : every<DenseConfig>(model.blocks)) dense->activation = activation;
  const std::int64_t width = c.size_or("embedding_size", 128);
  model.embedding.width = width;
  model.embedding.projects_sum = true;
  model.head.transform->width = width;
  const auto n_layers = static_cast<std::int64_t>(model.blocks.size()), n_groups = c.size_or("num_hidden_groups", 1);
  if (n_groups > n_layers) {
    throw BadCheckpoint(c.where(), "num_hidden_groups: expected at most {}, got {}", n_layers, n_groups);
  }
  std::int64_t first = 0;  // of the group
  const double per_group = static_cast<double>(n_layers) / static_cast<double>(n_groups);
  const auto group_of = [&](std::int64_t layer) {  // rounded as the reference does it
    return static_cast<std::int64_t>(static_cast<double>(layer) / per_group);
  };
  for (std::int64_t layer = 1; layer < n_layers; ++layer) {
    if (group_of(layer) != group_of(first)) first = layer;
    if (layer != first) model.blocks[static_cast<std::size_t>(layer)].same_as = first;
  }
  return model;
}

}  // namespace

Family albert_family() {
  Family family = bert_like("albert", "AlbertForMaskedLM", "albert.", read_albert);
  family.others = {"AlbertModel"};
  add_tensors(family.tensors,
              {{"{p}encoder.embedding_hidden_mapping_in", {"embed_proj"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.attention.query", {"blocks.{l}.attn.wq"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.attention.key", {"blocks.{l}.attn.wk"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.attention.value", {"blocks.{l}.attn.wv"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.attention.dense", {"blocks.{l}.attn.wo"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.attention.LayerNorm", {"blocks.{l}.ln1"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.ffn", {"blocks.{l}.mlp.w_up"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.ffn_output", {"blocks.{l}.mlp.w_down"}},
               {"{p}encoder.albert_layer_groups.{g}.albert_layers.0.full_layer_layer_norm", {"blocks.{l}.ln2"}},
               {"{p}pooler", {"pooler.dense"}},
               {"predictions.dense", {"head.dense"}},
               {"predictions.LayerNorm", {"head.ln"}},
               {"predictions", {"unembed"}}});
  family.tensors.push_back({"predictions.decoder", {"unembed"}});
  family.ignored = {"{p}embeddings.position_ids", "{p}pooler.weight", "{p}pooler.bias",
                    "sop_classifier.classifier.weight", "sop_classifier.classifier.bias"};
  family.tasks = pooled_classes("{p}pooler", Activation::tanh, "classifier", "{p}pooler");
  return family;
}

}  // namespace vitrine
