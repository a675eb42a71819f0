#include "model/stack.h"

#include "base/exchanged.h"
#include "model/block.h"
#include "model/finite.h"

namespace vitrine {
namespace {

Tensor run_block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const Tensor& x) {
  if (p.ledger != nullptr) p.ledger->enter_layer(at.layer);
  const Tensor y = block(p, at, c, w, x);
  check_finite(p, at(Site::resid_post), y);
  return y;
}

/// Runs the block and records it as one op.
Tensor run_recomputed(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  {
    const ArenaScope scope(p.arena);
    const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
    const Tensor made = run_block(p, at, c, w, x);
    p.copy(made.data, made.count(), y.data);
  }
  p.training.tape->record("block", {&x, 1}, y, [&p, at, &c, &w, x, y] {
    const ArenaScope scope(p.arena);
    const Exchanged recomputing(p.training.recomputing, true);
    const std::size_t mark = p.training.tape->mark();
    const Tensor made = run_block(p, at, c, w, x);
    const Tensor dmade = p.grad(made), dy = p.grad(y);
    p.copy(dy.data, dy.count(), dmade.data);
    p.training.tape->unwind(mark);
  });
  return y;
}

}  // namespace

Tensor run_stack(Pass& p, Stack stack, std::span<const BlockConfig> configs, std::span<const BlockParams> params,
                 Tensor x) {
  for (std::size_t layer = 0; layer < configs.size(); ++layer) {
    const BlockSite at{static_cast<int>(layer), stack};
    if (p.ends_before(at(Site::resid_pre))) break;
    if (p.is_taped() && p.training.recompute) {
      x = run_recomputed(p, at, configs[layer], params[layer], x);
    } else if (p.is_taped()) {
      x = run_block(p, at, configs[layer], params[layer], x);
    } else {
      const ArenaScope scope(p.arena);
      const Tensor made = run_block(p, at, configs[layer], params[layer], x);
      p.copy(made.data, made.count(), x.data);
    }
  }
  if (p.ledger != nullptr) p.ledger->enter_layer(-1);
  return x;
}

}  // namespace vitrine
