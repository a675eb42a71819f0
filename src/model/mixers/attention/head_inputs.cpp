#include "model/mixers/attention/head_inputs.h"

#include <algorithm>
#include <memory>

#include "base/exchanged.h"
#include "model/mixers/attention/attention.h"
#include "ops/attention_sites.h"
#include "ops/by_head.h"
#include "ops/elementwise.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// x for a tap; with a tape, a copy of x. The gradient of the copy is added to that of x only if a tap has replaced it,
/// which puts it on the path from tokens to logits.
Tensor copy_for_tap(Pass& p, const Tensor& x, const std::shared_ptr<bool>& on_path) {
  if (!p.is_taped()) return x;
  const Tensor y = p.tensor(x.shape);
  p.copy(x.data, x.count(), y.data);
  p.record(OpKind::copy_for_tap, {x}, y, [&p, on_path, x, y] {
    if (!*on_path) return;
    accumulate(p, p.grad(y), p.grad(x));
  });
  return y;
}

HeadCopies copies_of(Pass& p, const Tensor& x, std::int64_t n) {
  const auto replaced = std::make_shared<bool>(false);
  return {copy_for_tap(p, repeat(p, x, n), replaced), replaced};
}

void tap(Pass& p, const SiteId& id, HeadCopies& copies) {
  const Tensor tapped = p.tap(id, copies.rows);
  if (tapped.data != copies.rows.data) *copies.replaced = true;
  copies.rows = tapped;
}

/// The block's norm of copies `[T, n, d]`, without its sites.
Tensor norm_copies(Pass& p, BlockSite at, const SublayerInput& in, const Tensor& copies) {
  const WithoutSites without_sites(p);
  const Shape shape = copies.shape;
  const Tensor rows = copies.reshaped({shape[0] * shape[1], shape[2]});
  return scale(p, in.scale, norm(p, at(norms::ln1), *in.norm_config, *in.norm_params, rows)).reshaped(shape);
}

/// With a tape: y was computed from the same rows for all heads. Gives `copies` the gradient that they would have if
/// each head had been computed from its own copy.
void add_copy_gradients(Pass& p, BlockSite at, const LinearParams& w, const SublayerInput& in, const Tensor& copies,
                        const Tensor& y) {
  p.training.tape->watch(y, [&p, at, &w, in, copies](const Tensor& dy) {
    const ArenaScope scope(p.arena);
    const Tensor dcopies = p.grad(copies);
    Gradients no_params;
    Tape tape(no_params);
    tape.record("copies", {}, copies, [&] { accumulate(p, tape.grad(copies), dcopies); });
    const Exchanged<Tape*> exchanged(p.training.tape, &tape);
    const Exchanged<RowsOfValue> rows(p.rows, {at.stack});
    const Tensor made = heads_in(p, w, norm_copies(p, at, in, copies));
    p.copy(dy.data, dy.count(), tape.grad(made).data);
    tape.unwind();
  });
}

}  // namespace

void tap_input(Pass& p, BlockSite at, const AttentionConfig& c, SublayerInput& in) {
  if (p.taps == nullptr) return;
  if (p.wants(at(AttentionSite::attn_in))) {
    in.q = copies_of(p, in.stream, c.n_heads);
    tap(p, at(AttentionSite::attn_in), in.q);
    in.k = {first_of_groups(p, in.q.rows, c.n_kv_heads), in.q.replaced};
    in.v = {first_of_groups(p, in.q.rows, c.n_kv_heads), in.q.replaced};
  }
  const auto show = [&](Site site, std::int64_t n, HeadCopies& copies) {
    if (!p.wants(at(site))) return;
    if (copies.rows.data == nullptr) copies = copies_of(p, in.stream, n);
    tap(p, at(site), copies);
  };
  show(AttentionSite::q_input, c.n_heads, in.q);
  if (c.kv_layer) return;
  show(AttentionSite::k_input, c.n_kv_heads, in.k);
  if (!c.values_are_keys) show(AttentionSite::v_input, c.n_kv_heads, in.v);
}

Tensor project_heads(Pass& p, BlockSite at, Site added, const LinearParams& w, const Tensor& rows,
                     const SublayerInput& in, const HeadCopies& own, const Shape& shape) {
  const AddedSite site{at(added), shape};
  if (own.rows.data == nullptr || !*own.replaced) {
    const Tensor y = linear(p, w, rows, site);
    if (own.rows.data != nullptr && p.is_taped()) add_copy_gradients(p, at, w, in, own.rows, y);
    return y.reshaped(shape);
  }
  return heads_in(p, w, norm_copies(p, at, in, own.rows), site).reshaped(shape);
}

Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z) {
  const AddedSite added{at(AttentionSite::lora_out)};
  if (!p.wants(at(AttentionSite::result))) return linear(p, wo, z, added);
  const auto on_path = std::make_shared<bool>(false);
  const Tensor result = copy_for_tap(p, heads_out(p, wo, z), on_path);
  const Tensor tapped = p.tap(at(AttentionSite::result), result);
  const std::int64_t n_heads = tapped.shape[1], d = tapped.shape[2];
  const auto backward = [&p, n_heads, d, tapped](const Tensor& dout) {  // dtapped[t, h] = dout[t]
    const Tensor dtapped = p.grad(tapped);
    p.for_rows(dout.rows() * n_heads, d, [&](std::int64_t i) {
      p.kernels.add(dtapped.data + i * d, dout.row(i / n_heads), d, dtapped.data + i * d);
    });
  };
  if (tapped.data == result.data) {
    const Tensor out = linear(p, wo, z, added);
    if (p.is_taped()) p.training.tape->watch(out, backward);
    return out;
  }

  *on_path = true;
  Tensor out;
  {
    const Exchanged<Tape*> unrecorded(p.training.tape, nullptr);
    LinearParams without_bias;
    without_bias.weight.name = wo.weight.name;
    out = linear(p, without_bias, z, added, &wo.weight);
  }
  // A replaced result changes the sum by its difference, so that replacing a result with itself changes no bit.
  p.for_rows(tapped.rows(), n_heads * d, [&](std::int64_t t) {
    const float *const changed = tapped.row(t), *const unchanged = result.row(t);
    float* const sum = out.row(t);
    for (std::int64_t i = 0; i < n_heads * d; ++i) {
      const float difference = changed[i] - unchanged[i];
      if (difference != 0.0f) sum[i % d] += difference;
    }
  });
  if (p.is_taped()) {
    p.record(OpKind::sum_of_heads, {tapped}, out, [&p, backward, out] { backward(p.grad(out)); });
  }
  add_bias(p, wo.bias, out);
  return out;
}

}  // namespace vitrine
