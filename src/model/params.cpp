#include "model/params.h"

namespace vitrine {
namespace {

void set_up(const StackConfig& stack, StackParams& params) {
  for (const BlockConfig& block : stack.blocks) {
    BlockParams& own = params.blocks.emplace_back();
    for (const Sublayer& sublayer : block.sublayers) {
      own.sublayers.push_back(
          {{},
           std::visit([](const auto& kind) -> SublayerKinds::Params { return unset_params(kind); }, sublayer.what)});
    }
  }
  for (const LayerConfig& layer : stack.layers) {
    params.layers.push_back(std::visit(
        [](const auto& kind) -> LayerKinds::Params { return typename std::decay_t<decltype(kind)>::Params(); }, layer));
  }
}

/// The tables and the norm of an embedding. `prefix` is "encoder.", "decoder." or "".
void list_embedding(ParamList& list, const StackConfig& c, StackParams& w, const std::string& prefix) {
  const std::int64_t d = c.sum_width();
  if (c.embedding.width) {
    list.linear(w.embed_proj, prefix + "embed_proj", c.d_model, *c.embedding.width, c.embedding.projects_sum);
  }
  if (c.embedding.position_table) {
    list.add(w.pos_embed, prefix + "pos_embed.weight", Shape{c.embedding.first_position + c.max_seq_len, d});
  }
  if (c.embedding.n_types > 0) list.add(w.type_embed, prefix + "type_embed.weight", Shape{c.embedding.n_types, d});
  list.norm(w.embed_norm, prefix + "ln_embed", c.embedding.norm, d);
  if (!c.per_layer) return;
  const std::int64_t p = per_layer_width(c), all = p * static_cast<std::int64_t>(c.n_layers());
  list.add(w.per_layer_embed, prefix + "per_layer_embed.weight", Shape{c.per_layer->vocab_size, all});
  list.linear(w.per_layer_proj, prefix + "per_layer_proj", all, c.d_model, false);
  list.norm(w.per_layer_norm, prefix + "ln_per_layer", c.per_layer->norm, p);
}

void list_block(ParamList& list, const BlockConfig& c, BlockParams& w, const std::string& at, const Widths& widths) {
  for (std::size_t i = 0; i < c.sublayers.size(); ++i) {
    const SublayerNorms& norms = c.sublayers[i].norms;
    SublayerNormParams& own = w.sublayers[i].norms;
    const std::string ln = at + "ln" + std::to_string(norm_number(c, i));
    list.norm(own.pre, ln, norms.pre, widths.stream);
    visit_sublayer(c.sublayers[i], w.sublayers[i], [&](const auto& kind, auto& params) {
      list_params(list, at + std::string(names_of(kind).prefix), kind, params, widths);
    });
    list.norm(own.post, ln + "_post", norms.post, widths.stream);
    list.norm(own.sum, ln, norms.sum, widths.stream);
  }
  if (c.scalar) list.add(w.scalar, at + std::string(kScalarName.substr(1)), Shape{1});
}

/// The layers of a stack, after its embedding. `source`: the encoder that the stack reads; null: none.
void list_layers(ParamList& list, const StackConfig& c, StackParams& w, const std::string& prefix,
                 const StackConfig* source) {
  if (c.relative_bias) {
    const auto* const attention = find<AttentionConfig>(c.blocks.front());
    list.add(w.rel_bias, prefix + "rel_bias.weight", Shape{c.relative_bias->n_buckets, attention->n_heads});
  }
  if (c.distance_table) {
    list.add(w.rel_embed, prefix + "rel_embed.weight", Shape{2 * c.distance_table->span, c.d_model});
    list.norm(w.rel_norm, prefix + "ln_rel", c.distance_table->norm, c.d_model);
  }
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const LayerPlace place = layer_place(c, i, prefix, source);
    std::visit(
        [&](const auto& kind) {
          list_params(list, kind, std::get<typename std::decay_t<decltype(kind)>::Params>(w.layers[i]), place);
        },
        c.layers[i]);
  }
  const Widths widths{c.d_model, source != nullptr ? source->output_width() : 0};
  if (c.altup) list_params(list, prefix, *c.altup, w.streams, c.d_model);
  for (std::size_t i = 0; i < c.blocks.size(); ++i) {
    if (c.blocks[i].same_as) continue;
    const std::string at = (prefix.empty() ? "blocks." : prefix) + std::to_string(i) + ".";
    if (c.altup) list_params(list, at, *c.altup, w.blocks[i].altup, c.d_model);
    list_block(list, c.blocks[i], w.blocks[i], at, widths);
  }
  list.norm(w.final_norm, prefix + "ln_final", c.final_norm, c.output_width());
}

}  // namespace

ModelParams empty_params(const ModelConfig& config) {
  ModelParams params;
  set_up(config, params);
  if (config.encoder) set_up(*config.encoder, params.encoder);
  return params;
}

void list_params(ParamList& list, const ModelConfig& config, ModelParams& params) {
  const Shape table{config.vocab_size, config.embedding_width()};
  const std::string own = config.encoder ? "decoder." : "";
  if (config.shared_embedding) list.add(params.embed, "embed.weight", table);
  if (const auto& c = config.encoder) {
    if (!config.shared_embedding) {
      list.add(params.encoder.embed, "encoder.embed.weight", Shape{c->vocab_size, c->embedding_width()});
    }
    list_embedding(list, *c, params.encoder, "encoder.");
    list_layers(list, *c, params.encoder, "encoder.", nullptr);
  }
  if (!config.shared_embedding) list.add(params.embed, own + "embed.weight", table);
  list_embedding(list, config, params, own);
  list_layers(list, config, params, own, config.encoder ? &*config.encoder : nullptr);
  const std::int64_t width = config.output_width();
  if (config.pooler) list.linear(params.pooler, "pooler.dense", width, width, true);
  if (config.pooler && config.pooler->next_sentence) list.linear(params.nsp_head, "nsp_head", 2, width, true);
  if (const auto& task = config.task) {
    const std::int64_t dense = task->dense.value_or(width);
    if (task->dense) list.linear(params.task.dense, "head.dense", dense, width, task->dense_bias);
    if (task->dense) list.norm(params.task.norm, "head.ln", task->norm, dense);
    list.linear(params.task.out, "head.out", task->n_labels(), dense, task->out_bias);
  }
  if (!config.has_head) return;
  if (config.head.transform) {
    const std::int64_t after = config.transformed_width();
    list.linear(params.head_dense, "head.dense", after, width, config.head.transform->bias);
    list.norm(params.head_norm, "head.ln", config.head.transform->norm, after);
  }
  const std::int64_t head_width = config.head_width();
  if (config.head.width) list.linear(params.head_proj, "head.proj", head_width, config.transformed_width(), false);
  if (!config.head.tied) list.add(params.unembed.weight, "unembed.weight", Shape{config.vocab_size, head_width});
  if (config.head.bias) list.add(params.unembed.bias, "unembed.bias", Shape{config.vocab_size});
}

}  // namespace vitrine
