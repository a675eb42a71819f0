#include "model/head_inputs.h"

#include <algorithm>
#include <memory>

#include "base/exchanged.h"
#include "ops/by_head.h"

namespace vitrine {
namespace {

/// Whether a tap has replaced a value that stands beside the way of the tokens, which puts it on that way.
using OnTheWay = std::shared_ptr<bool>;

/// x, for a tap; on the tape a value of its own, whose gradient goes into x only where it is on the way.
Tensor beside(Pass& p, const Tensor& x, const OnTheWay& on_the_way) {
  if (!p.is_taped()) return x;
  const Tensor y = p.tensor(x.shape);
  std::copy_n(x.data, x.count(), y.data);
  p.record("beside", {x}, y, [&p, on_the_way, x, y] {
    if (!*on_the_way) return;
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.kernels.add(dx.data, dy.data, x.count(), dx.data);
  });
  return y;
}

HeadCopies copies_of(Pass& p, const Tensor& x, std::int64_t n) {
  const auto replaced = std::make_shared<bool>(false);
  return {beside(p, repeat(p, x, n), replaced), replaced};
}

void tap(Pass& p, const SiteId& id, HeadCopies& copies) {
  const Tensor seen = p.tap(id, copies.rows);
  if (seen.data != copies.rows.data) *copies.replaced = true;
  copies.rows = seen;
}

/// The block's norm of copies `[T, n, d]`, which its taps do not see.
Tensor norm_copies(Pass& p, BlockSite at, const AttentionInput& in, const Tensor& copies) {
  const Exchanged<Taps*> unseen(p.taps, nullptr);
  const Shape shape = copies.shape;
  const Tensor rows = copies.reshaped({shape[0] * shape[1], shape[2]});
  return norm(p, at(Norm::ln1), *in.norm_config, *in.norm_params, rows).reshaped(shape);
}

/// With a tape: y was made from the same rows for every head, and the gradient of `copies` becomes what it would be if
/// each head had been computed from its own copy.
void learn_aside(Pass& p, BlockSite at, const Param& weight, const AttentionInput& in, const Tensor& copies,
                 const Tensor& y) {
  p.training.tape->watch(y, [&p, at, &weight, in, copies](const Tensor& dy) {
    const ArenaScope scope(p.arena);
    const Tensor dcopies = p.grad(copies);
    Gradients of_no_params;
    Tape aside(of_no_params);
    aside.record("copies", {}, copies,
                 [&] { p.kernels.add(dcopies.data, aside.grad(copies).data, copies.count(), dcopies.data); });
    const Exchanged<Tape*> tape(p.training.tape, &aside);
    const Tensor made = heads_in(p, weight, norm_copies(p, at, in, copies));
    std::copy_n(dy.data, dy.count(), aside.grad(made).data);
    aside.unwind();
  });
}

}  // namespace

AttentionInput head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                           const NormParams& norm_params, const Tensor& x) {
  AttentionInput in{.normed = {}, .q = {}, .k = {}, .v = {}, .norm_config = &norm_config, .norm_params = &norm_params};
  if (p.taps == nullptr) return in;
  if (p.wants(at(Site::attn_in))) {
    in.q = copies_of(p, x, c.n_heads);
    tap(p, at(Site::attn_in), in.q);
    in.k = {first_of_groups(p, in.q.rows, c.n_kv_heads), in.q.replaced};
    in.v = {first_of_groups(p, in.q.rows, c.n_kv_heads), in.q.replaced};
  }
  const auto show = [&](Site site, std::int64_t n, HeadCopies& copies) {
    if (!p.wants(at(site))) return;
    if (copies.rows.data == nullptr) copies = copies_of(p, x, n);
    tap(p, at(site), copies);
  };
  show(Site::q_input, c.n_heads, in.q);
  show(Site::k_input, c.n_kv_heads, in.k);
  show(Site::v_input, c.n_kv_heads, in.v);
  return in;
}

Tensor project_heads(Pass& p, BlockSite at, const LinearParams& w, const AttentionInput& in, const HeadCopies& own,
                     const Shape& shape) {
  if (own.rows.data == nullptr || !*own.replaced) {
    const Tensor y = linear(p, w, in.normed);
    if (own.rows.data != nullptr && p.is_taped()) learn_aside(p, at, w.weight, in, own.rows, y);
    return y.reshaped(shape);
  }
  const Tensor y = heads_in(p, w.weight, norm_copies(p, at, in, own.rows));
  add_bias(p, w.bias, y);
  return y.reshaped(shape);
}

Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z) {
  if (!p.wants(at(Site::result))) return linear(p, wo, z);
  const auto on_the_way = std::make_shared<bool>(false);
  const Tensor result = beside(p, heads_out(p, wo.weight, z), on_the_way);
  const Tensor seen = p.tap(at(Site::result), result);
  const std::int64_t n_heads = seen.shape[1], d = seen.shape[2];
  const auto learn = [&p, n_heads, d, seen](const Tensor& dout) {  // dseen[t, h] = dout[t]
    const Tensor dseen = p.grad(seen);
    for (std::int64_t i = 0; i < dout.rows() * n_heads; ++i) {
      p.kernels.add(dseen.data + i * d, dout.row(i / n_heads), d, dseen.data + i * d);
    }
  };
  if (seen.data == result.data) {
    const Tensor out = linear(p, wo, z);
    if (p.is_taped()) p.training.tape->watch(out, learn);
    return out;
  }

  *on_the_way = true;
  Tensor out;
  {
    const Exchanged<Tape*> unrecorded(p.training.tape, nullptr);
    out = linear(p, wo.weight, z);
  }
  // A replaced result moves the sum by its difference; one that was replaced by itself leaves every bit.
  for (std::int64_t i = 0; i < seen.count(); ++i) {
    const float difference = seen.data[i] - result.data[i];
    if (difference != 0.0f) out.data[i / (n_heads * d) * d + i % d] += difference;
  }
  if (p.is_taped()) {
    p.record("sum_of_heads", {seen}, out, [&p, learn, out] { learn(p.grad(out)); });
  }
  add_bias(p, wo.bias, out);
  return out;
}

}  // namespace vitrine
