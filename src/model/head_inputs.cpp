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
  if (p.tape == nullptr) return x;
  const Tensor y = p.tensor(x.shape);
  std::copy_n(x.data, x.count(), y.data);
  p.tape->record("beside", {x}, y, [&p, on_the_way, x, y] {
    if (!*on_the_way) return;
    const Tensor dx = p.tape->grad(x), dy = p.tape->grad(y);
    p.kernels.add(dx.data, dy.data, x.count(), dx.data);
  });
  return y;
}

/// Copies of the stream, one a head; no data where nobody looks.
struct Copies {
  Tensor rows;
  OnTheWay on_the_way;

  void tap(Pass& p, const SiteId& id) {
    const Tensor seen = p.tap(id, rows);
    if (seen.data != rows.data) *on_the_way = true;
    rows = seen;
  }
};

Copies copies_of(Pass& p, const Tensor& x, std::int64_t n) {
  const auto on_the_way = std::make_shared<bool>(false);
  return {beside(p, repeat(p, x, n), on_the_way), on_the_way};
}

/// With a tape: y was made of all rows alike, and the gradient of `copies` becomes what it would be if each of its
/// heads had been made of its own copy.
void learn_aside(Pass& p, const Param& weight, const HeadInputs& in, const Tensor& copies, const Tensor& y) {
  p.tape->watch(y, [&p, &weight, norm = in.norm, copies](const Tensor& dy) {
    const ArenaScope scope(p.arena);
    const Tensor dcopies = p.tape->grad(copies);
    Gradients of_no_params;
    Tape aside(of_no_params);
    aside.record("copies", {}, copies,
                 [&] { p.kernels.add(dcopies.data, aside.grad(copies).data, copies.count(), dcopies.data); });
    const Exchanged<Tape*> tape(p.tape, &aside);
    const Tensor made = heads_in(p, weight, norm(copies));
    std::copy_n(dy.data, dy.count(), aside.grad(made).data);
    aside.unwind();
  });
}

}  // namespace

HeadInputs head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                       const NormParams& norm_params, const Tensor& x) {
  Copies q, k, v;
  if (p.wants(at(Site::attn_in))) {
    q = copies_of(p, x, c.n_heads);
    q.tap(p, at(Site::attn_in));
    k = {first_of_groups(p, q.rows, c.n_kv_heads), q.on_the_way};
    v = {first_of_groups(p, q.rows, c.n_kv_heads), q.on_the_way};
  }
  const auto tap = [&](Site site, std::int64_t n, Copies& copies) {
    if (!p.wants(at(site))) return;
    if (copies.rows.data == nullptr) copies = copies_of(p, x, n);
    copies.tap(p, at(site));
  };
  tap(Site::q_input, c.n_heads, q);
  tap(Site::k_input, c.n_kv_heads, k);
  tap(Site::v_input, c.n_kv_heads, v);

  HeadInputs in;
  in.all = norm(p, at(Norm::ln1), norm_config, norm_params, x);
  in.norm = [&p, at, &norm_config, &norm_params](const Tensor& copies) {
    const Exchanged<Taps*> unseen(p.taps, nullptr);
    const Shape shape = copies.shape;
    const Tensor rows = copies.reshaped({shape[0] * shape[1], shape[2]});
    return norm(p, at(Norm::ln1), norm_config, norm_params, rows).reshaped(shape);
  };
  const auto input = [&](const Copies& copies) -> HeadInput {
    if (copies.rows.data == nullptr) return {};
    if (*copies.on_the_way) return {in.norm(copies.rows), {}};
    return {{}, p.tape != nullptr ? copies.rows : Tensor{}};
  };
  in.q = input(q);
  in.k = input(k);
  in.v = input(v);
  return in;
}

Tensor project_heads(Pass& p, const LinearParams& w, const HeadInputs& in, const HeadInput& own, const Shape& shape) {
  if (own.normed.data == nullptr) {
    const Tensor y = linear(p, w, in.all);
    if (own.seen.data != nullptr) learn_aside(p, w.weight, in, own.seen, y);
    return y.reshaped(shape);
  }
  const Tensor y = heads_in(p, w.weight, own.normed);
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
    const Tensor dseen = p.tape->grad(seen);
    for (std::int64_t i = 0; i < dout.rows() * n_heads; ++i) {
      p.kernels.add(dseen.data + i * d, dout.row(i / n_heads), d, dseen.data + i * d);
    }
  };
  if (seen.data == result.data) {
    const Tensor out = linear(p, wo, z);
    if (p.tape != nullptr) p.tape->watch(out, learn);
    return out;
  }

  *on_the_way = true;
  Tensor out;
  {
    const Exchanged<Tape*> unrecorded(p.tape, nullptr);
    out = linear(p, wo.weight, z);
  }
  // A replaced result moves the sum by its difference; one that was replaced by itself leaves every bit.
  for (std::int64_t i = 0; i < seen.count(); ++i) {
    const float difference = seen.data[i] - result.data[i];
    if (difference != 0.0f) out.data[i / (n_heads * d) * d + i % d] += difference;
  }
  if (p.tape != nullptr) {
    p.tape->record("sum_of_heads", {seen}, out, [&p, learn, out] { learn(p.tape->grad(out)); });
  }
  add_bias(p, wo.bias, out);
  return out;
}

}  // namespace vitrine
