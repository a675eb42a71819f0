#include "model/stack.h"

#include <cmath>

#include "base/error.h"
#include "base/exchanged.h"
#include "model/finite.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

Tensor run_block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const BlockContext& context,
                 const Tensor& x) {
  if (p.ledger != nullptr) p.ledger->enter_layer(at.layer, at.stack);
  const Tensor y = block(p, at, c, w, context, x);
  check_finite(p, at(Site::resid_post), y);
  return y;
}

/// Runs the block and records it as one op.
Tensor run_recomputed(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const BlockContext& context,
                      const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  {
    const ArenaScope scope(p.arena);
    const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
    const Tensor made = run_block(p, at, c, w, context, x);
    p.copy(made.data, made.count(), y.data);
  }
  p.training.tape->record("block", {&x, 1}, y, [&p, at, &c, &w, context, x, y] {
    const ArenaScope scope(p.arena);
    const Exchanged recomputing(p.training.recomputing, true);
    const std::size_t mark = p.training.tape->mark();
    const Tensor made = run_block(p, at, c, w, context, x);
    const Tensor dmade = p.grad(made), dy = p.grad(y);
    p.copy(dy.data, dy.count(), dmade.data);
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

Tensor embed_sum(Pass& p, BlockSite at, const StackConfig& stack, const StackParams& w, const Param& table,
                 std::span<const std::int32_t> ids, std::span<const std::int32_t> types) {
  const EmbeddingConfig& c = stack.embedding;
  Tensor x = p.tap(at(Site::embed), embed(p, table, ids, {c.scale, c.untrained_id, "embed"}));
  if (c.n_types > 0) x = add(p, x, p.tap(at(Site::type_embed), embed_types(p, w.type_embed, types, ids.size())));
  if (c.position_table) {
    x = add(p, x, p.tap(at(Site::pos_embed), embed_positions(p, w.pos_embed, c.first_position, x.rows(), at.stack)));
  } else if (c.sinusoid) {
    x = add(p, x, p.tap(at(Site::pos_embed), embed_sinusoids(p, *c.sinusoid, c.first_position, x.shape, at.stack)));
  }
  x = dropout(p, at(Site::embed), norm(p, at(Norm::embed), c.norm, w.embed_norm, x));
  check_finite(p, at(Site::embed), x);
  return x;
}

}  // namespace

Tensor embed_tokens(Pass& p, Stack stack, const StackConfig& c, const StackParams& w, const Param& table,
                    std::span<const std::int32_t> ids, std::span<const std::int32_t> types) {
  const BlockSite at{-1, stack};
  if (p.ledger != nullptr) p.ledger->enter_layer(-1, stack);
  std::vector<std::int32_t> replaced;
  const std::span<const std::int32_t> read = tap_ids(p, at(Site::tokens), c.vocab_size, ids, replaced);
  if (p.is_taped()) return embed_sum(p, at, c, w, table, read, types);
  const Tensor x = p.tensor({static_cast<std::int64_t>(ids.size()), c.d_model});
  const ArenaScope scope(p.arena);
  const Tensor sum = embed_sum(p, at, c, w, table, read, types);
  p.copy(sum.data, sum.count(), x.data);
  return x;
}

Tensor run_stack(Pass& p, Stack stack, const StackConfig& c, const StackParams& w, Tensor x, const Tensor& encoded) {
  BlockContext context{{}, encoded};
  if (c.relative_bias) context.bias = relative_bias(p, *c.relative_bias, w.rel_bias, stack);
  for (std::size_t layer = 0; layer < c.blocks.size(); ++layer) {
    const BlockSite at{static_cast<int>(layer), stack};
    if (p.ends_before(at(Site::resid_pre))) break;
    if (p.is_taped() && p.training.recompute) {
      x = run_recomputed(p, at, c.blocks[layer], w.blocks[layer], context, x);
    } else if (p.is_taped()) {
      x = run_block(p, at, c.blocks[layer], w.blocks[layer], context, x);
    } else {
      const ArenaScope scope(p.arena);
      const Tensor made = run_block(p, at, c.blocks[layer], w.blocks[layer], context, x);
      p.copy(made.data, made.count(), x.data);
    }
  }
  if (p.ledger != nullptr) p.ledger->enter_layer(-1, stack);
  return x;
}

}  // namespace vitrine
