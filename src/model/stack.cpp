#include "model/stack.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/exchanged.h"
#include "base/mapped_file.h"
#include "model/block.h"
#include "model/finite.h"
#include "ops/control.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

/// One layer of a stack that replaces the stream.
Tensor replace(Pass& p, BlockSite at, const LayerConfig& c, const LayerKinds::Params& w, const StackContext& context,
               const Tensor& x) {
  const Tensor in = p.tap(at(Site::resid_pre), x);
  const Tensor y = std::visit(
      [&](const auto& kind) {
        return forward(p, at, kind, std::get<typename std::decay_t<decltype(kind)>::Params>(w), context, in);
      },
      c);
  return p.tap(at(Site::resid_post), add_controls(p, at, dropout(p, at(Site::resid_post), y)));
}

/// A layer of a stack, its parameters, and what it reads.
struct Layer {
  BlockSite at;
  const StackConfig& c;
  const StackParams& w;
  const StackContext& context;
};

Tensor run_layer(Pass& p, const Layer& layer, const Tensor& x) {
  const auto& [at, c, w, context] = layer;
  const auto i = static_cast<std::size_t>(at.layer);
  if (p.ledger != nullptr) p.ledger->enter_layer(at.layer, at.stack);
  const Exchanged<RowsOfValue> rows(p.rows, {at.stack});
  const Tensor y = c.layers.empty() ? block(p, at, c.blocks[i], w.blocks[params_block(c, i)], context, x)
                                    : replace(p, at, c.layers[i], w.layers[i], context, x);
  check_finite(p, at(Site::resid_post), y);
  return y;
}

/// By layer: memory for the keys and values that later layers read, too; empty if no layer reads those of another.
std::vector<KeyValueRows> memory_for_keys(Pass& p, const StackConfig& c, std::int64_t n_rows) {
  std::vector<KeyValueRows> all;
  for (std::size_t layer = 0; layer < c.blocks.size(); ++layer) {
    const AttentionConfig* const reader = attention_of(c, layer);
    if (reader == nullptr || !reader->kv_layer) continue;
    all.resize(c.blocks.size());
    KeyValueRows& read = all[static_cast<std::size_t>(*reader->kv_layer)];
    if (read.k.data != nullptr) continue;
    read.k = p.tensor({n_rows, reader->n_kv_heads, reader->head_dim});
    read.v = p.tensor({n_rows, reader->n_kv_heads, reader->width_of_values()});
  }
  return all;
}

/// Records values that were computed without the tape as inputs of the ops to come.
void record_input(Pass& p, const Tensor& x) {
  const bool is_new = p.is_taped() && x.data != nullptr && !p.training.tape->knows(x);
  if (is_new) p.training.tape->record("input", {}, x, [] {});
}

/// Gives `made`, which a repeated forward has computed, the gradient of the first forward's value.
void give_gradient(Pass& p, const Tensor& first, const Tensor& made) {
  const Tensor dmade = p.grad(made), dfirst = p.grad(first);
  p.copy(dfirst.data, dfirst.count(), dmade.data);
}

/// Runs the layer, whose output has rows of `width` elements, and records it as one op (activation checkpointing).
Tensor run_recomputed(Pass& p, const Layer& layer, const Tensor& x, std::int64_t width) {
  const auto i = static_cast<std::size_t>(layer.at.layer);
  const KeyValueRows kept = layer.context.shared.empty() ? KeyValueRows() : layer.context.shared[i];
  record_input(p, kept.k);
  record_input(p, kept.v);
  const Tensor y = p.tensor({x.rows(), width});
  {
    const ArenaScope scope(p.arena);
    const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
    const Tensor made = run_layer(p, layer, x);
    p.copy(made.data, made.count(), y.data);
  }
  p.training.tape->record("block", {&x, 1}, y, [&p, layer, i, kept, context = layer.context, x, y] {
    const ArenaScope scope(p.arena);
    const Exchanged recomputing(p.training.recomputing, true);
    const std::size_t mark = p.training.tape->mark();
    StackContext again = context;
    if (kept.k.data != nullptr) {
      again.shared[i].k = p.tensor(kept.k.shape);
      again.shared[i].v = p.tensor(kept.v.shape);
    }
    const Tensor made = run_layer(p, {layer.at, layer.c, layer.w, again}, x);
    give_gradient(p, y, made);
    if (kept.k.data != nullptr) {
      give_gradient(p, kept.k, again.shared[i].k);
      give_gradient(p, kept.v, again.shared[i].v);
    }
    p.training.tape->unwind(mark);
  });
  return y;
}

/// The ids to continue with: `ids`, or, if they are tapped, the returned ids, which are stored in `replaced`.
std::span<const std::int32_t> tap_ids(Pass& p, const SiteId& at, std::int64_t vocab_size,
                                      std::span<const std::int32_t> ids, std::vector<std::int32_t>& replaced) {
  if (!p.wants(at)) return ids;
  const Tensor value = p.tensor({static_cast<std::int64_t>(ids.size())});
  p.for_rows(value.count(), 1,
             [&](std::int64_t i) { value.data[i] = static_cast<float>(ids[static_cast<std::size_t>(i)]); });
  const Tensor tapped = p.tap(at, value);
  if (p.shapes_only) return ids;
  for (const float id : tapped.values()) {
    const bool is_id = id >= 0 && id < static_cast<float>(vocab_size) && id == std::floor(id);
    if (!is_id) throw BadInput(name_of(at), "expected ids from 0 to {}, got {}", vocab_size - 1, id);
    replaced.push_back(static_cast<std::int32_t>(id));
  }
  return replaced;
}

/// `[T, d]`: the embedding of each token's type.
Tensor embed_types(Pass& p, const Param& table, std::span<const std::int32_t> types, std::size_t n_rows) {
  const EmbedOptions options{1.0f, {}, "type_embed"};
  if (types.size() == n_rows) return embed(p, table, types, options);
  const std::vector<std::int32_t> zeros(n_rows);
  return embed(p, table, zeros, options);
}

/// Each row's id after the context − 1 ids before it, oldest first: those of the row's sequence, else the pad.
std::vector<std::int32_t> ids_in_context(const Pass& p, Stack stack, const EmbeddingConfig& c,
                                         std::span<const std::int32_t> ids, const std::vector<Segment>& segments) {
  std::vector<std::int32_t> all;
  const auto n_before = static_cast<std::size_t>(c.context - 1);
  for (const Segment& s : segments) {
    const auto own = ids.subspan(static_cast<std::size_t>(s.first_row), static_cast<std::size_t>(s.length));
    std::vector<std::int32_t> text(n_before, c.context_pad);
    if (p.shapes_only) {
      all.resize(all.size() + own.size() * (n_before + 1));
      continue;
    }
    const bool is_cached = s.cache != nullptr && stack != Stack::encoder;
    if (is_cached && s.position > 0) std::ranges::copy(s.cache->state<std::int32_t>(0, 0), text.begin());
    text.insert(text.end(), own.begin(), own.end());
    if (is_cached) std::copy_n(text.end() - c.context + 1, n_before, s.cache->next_state<std::int32_t>(0, 0).begin());
    for (auto row = text.begin(); row + static_cast<std::ptrdiff_t>(n_before) != text.end(); ++row) {
      all.insert(all.end(), row, row + c.context);
    }
  }
  return all;
}

/// The embeddings of the tokens, with those of their contexts.
Tensor embed_in_context(Pass& p, BlockSite at, const EmbeddingConfig& c, const StackParams& w, const Param& table,
                        std::span<const std::int32_t> ids) {
  const EmbedOptions options{c.scale, c.untrained_id, "embed"};
  const auto projected = [&](const Tensor& x) { return c.width && !c.projects_sum ? linear(p, w.embed_proj, x) : x; };
  if (c.context == 1) return projected(embed(p, table, ids, options));
  const Tensor x = projected(embed(p, table, ids_in_context(p, at.stack, c, ids, p.segments_of(at.stack)), options));
  return x.reshaped({static_cast<std::int64_t>(ids.size()), c.context * x.row_size()});
}

Tensor embed_sum(Pass& p, BlockSite at, const StackConfig& stack, const StackParams& w, const Param& table,
                 std::span<const std::int32_t> ids, std::span<const std::int32_t> types) {
  const EmbeddingConfig& c = stack.embedding;
  Tensor x = p.tap(at(Site::embed), embed_in_context(p, at, c, w, table, ids));
  if (c.n_types > 0) x = add(p, x, p.tap(at(Site::type_embed), embed_types(p, w.type_embed, types, ids.size())));
  const PositionOptions positions{c.first_position, c.uncounted_id};
  if (c.position_table) {
    x = add(p, x, p.tap(at(Site::pos_embed), embed_positions(p, w.pos_embed, ids, positions, at.stack)));
  } else if (c.sinusoid) {
    x = add(p, x, p.tap(at(Site::pos_embed), embed_sinusoids(p, *w.sinusoids, ids, x.row_size(), positions, at.stack)));
  }
  const Shape rows{x.rows() * c.context, stack.sum_width()};  // each token's embedding has a norm of its own
  x = norm(p, at(norms::embed), c.norm, w.embed_norm, x.reshaped(rows)).reshaped(x.shape);
  x = dropout(p, at(Site::embed), x);
  if (c.projects_sum) x = linear(p, w.embed_proj, x);
  check_finite(p, at(Site::embed), x);
  return x;
}

/// `[T, n_layers · p]`: rows of the table of per-layer embeddings, times its scale. They are read from the mapped file
/// in groups, whose pages are released: the table takes no memory, however many tokens there are.
Tensor look_up(Pass& p, const PerLayerInputConfig& c, const Param& table, std::span<const std::int32_t> tokens) {
  constexpr std::size_t kGroup = 64;
  std::vector<std::int32_t> in_table;  // the table may lack the last tokens of the vocabulary
  const bool lacks_ids =
      !p.shapes_only && std::any_of(tokens.begin(), tokens.end(), [&](std::int32_t id) { return id >= c.vocab_size; });
  if (lacks_ids) {  // these tokens have the row of token 0
    const auto row_of = [&](std::int32_t id) { return id < c.vocab_size ? id : 0; };
    std::transform(tokens.begin(), tokens.end(), std::back_inserter(in_table), row_of);
  }
  const std::span<const std::int32_t> ids = in_table.empty() ? tokens : in_table;
  const EmbedOptions options{c.scale, {}, "per_layer_embed"};
  if (p.is_taped() || p.shapes_only || p.ledger != nullptr) return embed(p, table, ids, options);
  const auto size = static_cast<std::size_t>(bytes_of(table.view.dtype, table.shape.count()));
  const Tensor all = p.tensor({static_cast<std::int64_t>(ids.size()), table.shape[1]});
  MappedFile::release({table.view.data, size});  // from now on faults read small pages
  for (std::size_t first = 0; first < ids.size(); first += kGroup) {
    const ArenaScope scope(p.arena);
    const Tensor rows = embed(p, table, ids.subspan(first, std::min(kGroup, ids.size() - first)), options);
    p.copy(rows.data, rows.count(), all.row(static_cast<std::int64_t>(first)));
    MappedFile::release({table.view.data, size});
  }
  return all;
}

/// `[T, n_layers · p]`: the inputs of per-layer embeddings, from the tokens and the stream x before the first layer.
Tensor per_layer_inputs(Pass& p, BlockSite at, const StackConfig& c, const StackParams& w,
                        std::span<const std::int32_t> ids, const Tensor& x) {
  const PerLayerInputConfig& own = *c.per_layer;
  const WithoutSites without_sites(p);
  const Exchanged<RowsOfValue> rows(p.rows, {at.stack});
  const Tensor projected = scale(p, own.projection_scale, linear(p, w.per_layer_proj, x));
  const Shape parts{x.rows(), static_cast<std::int64_t>(c.n_layers()), per_layer_width(c)};
  const Tensor normed = norm(p, at(norms::embed), own.norm, w.per_layer_norm, projected.reshaped(parts));
  const Tensor looked_up = look_up(p, own, w.per_layer_embed, ids);
  return scale(p, own.sum_scale, add(p, normed.reshaped(looked_up.shape), looked_up));
}

std::size_t as_size(int n) { return static_cast<std::size_t>(n); }

/// The first layer of this process, which receives its stream if it is not 0.
int first_layer(const Pass& p, Stack stack) { return p.split != nullptr ? p.split->first(stack) : 0; }

/// Whether values at the site may depend on anything that learns.
bool needs_backward(const Pass& p, const SiteId& at) { return !p.training.begin || !precedes(at, *p.training.begin); }

/// Calls p.training.blocks around the forward of a block, and, if its input and output are watched, around its
/// backward.
class BlockFollower {
 public:
  BlockFollower(Pass& p, const BlockSite& at) : p_(p), at_(at) {
    if (p.training.blocks != nullptr) p.training.blocks->begin_block(at.stack, at.layer, BlockEvents::Way::forward);
  }

  void end() const {
    if (p_.training.blocks != nullptr) p_.training.blocks->end_block(at_.stack, at_.layer, BlockEvents::Way::forward);
  }
  void watch_input(const Tensor& x) const { watch(x, &BlockEvents::end_block); }
  void watch_output(const Tensor& y) const { watch(y, &BlockEvents::begin_block); }

 private:
  void watch(const Tensor& value, void (BlockEvents::*event)(Stack, int, BlockEvents::Way)) const {
    BlockEvents* const blocks = p_.training.blocks;
    if (blocks == nullptr) return;
    p_.training.tape->watch(value, [blocks, event, at = at_](const Tensor&) {
      (blocks->*event)(at.stack, at.layer, BlockEvents::Way::backward);
    });
  }

  Pass& p_;
  const BlockSite at_;
};

/// Begins the tape at x, if x was computed without it because nothing before it learns.
void begin_tape(Pass& p, const Tensor& x) {
  if (p.training.begin) record_input(p, x);
}

/// The same for what a block reads besides the stream. Its own keys and values are recorded when it keeps them.
void begin_tape(Pass& p, const StackConfig& c, std::size_t layer, const StackContext& context) {
  record_input(p, context.per_layer);
  const AttentionConfig* const attention = attention_of(c, layer);
  if (attention == nullptr || !attention->kv_layer) return;
  const KeyValueRows& read = context.shared[static_cast<std::size_t>(*attention->kv_layer)];
  record_input(p, read.k);
  record_input(p, read.v);
}

}  // namespace

SharedStates make_states(Pass& p, Stack stack, const StackConfig& c) {
  if (recurrent_layer(c, 0) == nullptr) return nullptr;
  std::vector<LayerStates> states;
  for (std::size_t i = 0; i < c.n_layers(); ++i) states.push_back(make_states(p, stack, *recurrent_layer(c, i)));
  return std::make_shared<const std::vector<LayerStates>>(std::move(states));
}

StackInput embed_tokens(Pass& p, Stack stack, const StackConfig& c, const StackParams& w, const Param& table,
                        std::span<const std::int32_t> ids, std::span<const std::int32_t> types) {
  const BlockSite at{-1, stack};
  const auto n_rows = static_cast<std::int64_t>(ids.size());
  const auto streams = [&](const Tensor& x) { return c.altup ? split_streams(p, *c.altup, w.streams, x) : x; };
  if (const int first = first_layer(p, stack); first > 0) return {p.tensor({n_rows, c.width_before(as_size(first))})};
  if (p.ledger != nullptr) p.ledger->enter_layer(-1, stack);
  std::vector<std::int32_t> replaced;
  const std::span<const std::int32_t> read = tap_ids(p, at(Site::tokens), c.vocab_size, ids, replaced);
  const Exchanged<Tape*> own_tape(p.training.tape, needs_backward(p, at(Site::embed)) ? p.training.tape : nullptr);
  const bool has_per_layer = c.per_layer && !p.ends_before(BlockSite{0, stack}(Site::resid_pre));
  StackInput in;
  if (p.is_taped()) {
    const Tensor x = embed_sum(p, at, c, w, table, read, types);
    if (has_per_layer) in.per_layer = per_layer_inputs(p, at, c, w, read, x);
    in.stream = streams(x);
    return in;
  }
  const auto copy_to = [&](const Tensor& to, const Tensor& from) { p.copy(from.data, from.count(), to.data); };
  in.stream = p.tensor({n_rows, c.width_before(0)});
  if (has_per_layer) in.per_layer = p.tensor({n_rows, w.per_layer_embed.shape[1]});
  const ArenaScope scope(p.arena);
  const Tensor x = embed_sum(p, at, c, w, table, read, types);
  copy_to(in.stream, streams(x));
  if (has_per_layer) copy_to(in.per_layer, per_layer_inputs(p, at, c, w, read, x));
  return in;
}

Tensor run_stack(Pass& p, Stack stack, const StackConfig& c, const StackParams& w, const StackInput& in,
                 const LayerContext& source) {
  Tensor x = in.stream;
  StackContext context{source};
  context.per_layer = in.per_layer;
  context.altup = c.altup ? &*c.altup : nullptr;
  context.shared = memory_for_keys(p, c, x.rows());
  if (c.relative_bias) context.bias = relative_bias(p, *c.relative_bias, w.rel_bias, stack);
  if (c.distance_table) context.positions = position_rows(p, *c.distance_table, w.rel_embed, w.rel_norm, stack);
  const std::size_t n_own = p.split != nullptr ? as_size(p.split->end(stack)) : c.n_layers();
  std::size_t layer = as_size(p.start ? p.start->layer : first_layer(p, stack));
  if (p.split != nullptr && layer > 0) p.split->receive(x);
  for (; layer < n_own; ++layer) {
    const BlockSite at{static_cast<int>(layer), stack};
    const Layer own{at, c, w, context};
    const std::int64_t width = c.width_before(layer + 1);
    if (p.ends_before(at(Site::resid_pre))) break;
    const bool is_taped = p.is_taped() && needs_backward(p, at(Site::resid_pre));
    const BlockFollower follower(p, at);
    const RopeConfig* const rope = layer < c.blocks.size() ? rope_of(c.blocks[layer]) : nullptr;
    if (rope != nullptr) context.rope.prepare(p, *rope, x.rows(), stack);
    if (is_taped) {
      begin_tape(p, x);
      begin_tape(p, c, layer, context);
      follower.watch_input(x);
      x = p.training.recompute ? run_recomputed(p, own, x, width) : run_layer(p, own, x);
      if (context.last_states != nullptr) p.grad(x);  // the states may have a gradient where the rows have none
      follower.watch_output(x);
    } else {
      const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
      const Tensor y = width == x.row_size() ? x : p.tensor({x.rows(), width});
      const ArenaScope scope(p.arena);
      const Tensor made = run_layer(p, own, x);
      p.copy(made.data, made.count(), y.data);
      x = y;
    }
    follower.end();
  }
  if (p.split != nullptr) p.split->send(p, x);
  if (p.ledger != nullptr) p.ledger->enter_layer(-1, stack);
  begin_tape(p, x);
  return x;
}

}  // namespace vitrine
