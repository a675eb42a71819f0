#include "model/head_inputs.h"

#include <algorithm>
#include <utility>

namespace vitrine {
namespace {

/// No taps for the length of a scope.
class Unseen {
 public:
  explicit Unseen(Pass& p) : p_(p), taps_(std::exchange(p.taps, nullptr)) {}
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen() { p_.taps = taps_; }

 private:
  Pass& p_;
  Taps* taps_;
};

/// `[T, n, d]`: n copies of each row of x `[T, d]`.
Tensor repeat(Pass& p, const Tensor& x, std::int64_t n) {
  const std::int64_t d = x.row_size();
  const Tensor copies = p.tensor({x.rows(), n, d});
  for (std::int64_t i = 0; i < x.rows() * n; ++i) std::copy_n(x.row(i / n), d, copies.data + i * d);
  return copies;
}

/// `[T, n, d]`: of x `[T, H, d]` every (H / n)-th copy.
Tensor first_of_groups(Pass& p, const Tensor& x, std::int64_t n) {
  const std::int64_t group = x.shape[1] / n;
  const std::int64_t d = x.shape[2];
  const Tensor some = p.tensor({x.rows(), n, d});
  for (std::int64_t i = 0; i < x.rows() * n; ++i) std::copy_n(x.data + i * group * d, d, some.data + i * d);
  return some;
}

}  // namespace

HeadInputs head_inputs(Pass& p, BlockSite at, const AttendConfig& c, const std::optional<NormConfig>& norm_config,
                       const NormParams& norm_params, const Tensor& x) {
  HeadInputs in;
  const auto tap_copies = [&](Site site, std::int64_t n, Tensor& replaced) {
    if (!p.wants(at(site))) return;
    const Tensor copies = replaced.data != nullptr ? replaced : repeat(p, x, n);
    const Tensor seen = p.tap(at(site), copies);
    if (seen.data == copies.data) return;
    p.refuse_tape(info(site).name);
    replaced = seen;
  };
  tap_copies(Site::attn_in, c.n_heads, in.q);
  if (in.q.data != nullptr) in.k = in.v = first_of_groups(p, in.q, c.n_kv_heads);
  tap_copies(Site::q_input, c.n_heads, in.q);
  tap_copies(Site::k_input, c.n_kv_heads, in.k);
  tap_copies(Site::v_input, c.n_kv_heads, in.v);

  in.all = norm(p, at(Norm::ln1), norm_config, norm_params, x);
  const Unseen unseen(p);
  for (Tensor* copies : {&in.q, &in.k, &in.v}) {
    if (copies->data == nullptr) continue;
    const Shape shape = copies->shape;
    const Tensor rows = copies->reshaped({shape[0] * shape[1], shape[2]});
    *copies = norm(p, at(Norm::ln1), norm_config, norm_params, rows).reshaped(shape);
  }
  return in;
}

Tensor project_heads(Pass& p, const LinearParams& w, const Tensor& all, const Tensor& by_head, const Shape& shape) {
  if (by_head.data == nullptr) return linear(p, w, all).reshaped(shape);
  const std::int64_t n_heads = shape[1], head_dim = shape[2], d = w.weight.view.cols;
  const Tensor y = p.tensor({shape[0], n_heads * head_dim});
  for (std::int64_t head = 0; head < n_heads; ++head) {
    product(p, w.weight.view.row_range(head * head_dim, head_dim), 0,
            {by_head.data + head * d, n_heads * d, shape[0], d},
            {y.data + head * head_dim, n_heads * head_dim, shape[0], head_dim});
  }
  add_bias(p, w.bias, y);
  return y.reshaped(shape);
}

Tensor project_out(Pass& p, BlockSite at, const LinearParams& wo, const Tensor& z) {
  const Tensor out = linear(p, wo, z);
  if (!p.wants(at(Site::result))) return out;

  p.refuse_tape("hook_result");
  const std::int64_t n_heads = z.shape[1], head_dim = z.shape[2], d = wo.weight.view.rows;
  const Tensor result = p.tensor({z.rows(), n_heads, d});
  for (std::int64_t head = 0; head < n_heads; ++head) {
    product(p, wo.weight.view, head * head_dim, {z.data + head * head_dim, n_heads * head_dim, z.rows(), head_dim},
            {result.data + head * d, n_heads * d, z.rows(), d});
  }
  const Tensor seen = p.tap(at(Site::result), result);
  if (seen.data == result.data) return out;
  // A replaced result moves the sum by its difference; one that was replaced by itself leaves every bit.
  for (std::int64_t i = 0; i < seen.count(); ++i) {
    const float difference = seen.data[i] - result.data[i];
    if (difference != 0.0f) out.data[i / (n_heads * d) * d + i % d] += difference;
  }
  return out;
}

}  // namespace vitrine
