#include "ops/route.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"
#include "ops/describe.h"

namespace vitrine {

Tensor softmax_rows(Pass& p, const Tensor& logits) {
  const std::int64_t n = logits.row_size();
  const Tensor y = p.tensor(logits.shape);
  p.for_rows(logits.rows(), 8 * n, [&](std::int64_t t) {
    const float most = p.kernels.max(logits.row(t), n);
    const float sum = p.kernels.exp_sum(logits.row(t), n, most, y.row(t));
    p.kernels.normalize(y.row(t), n, 0.0f, sum, y.row(t));
  });
  p.record(OpKind::softmax_rows, {logits}, y, [&p, n, logits, y] {  // dx = y · (dy − Σ y · dy)
    const Tensor dx = p.grad(logits), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor centered = p.tensor(y.shape);
    p.for_rows(y.rows(), 4 * n, [&](std::int64_t t) {
      p.kernels.normalize(dy.row(t), n, p.kernels.dot(y.row(t), dy.row(t), n), 1.0f, centered.row(t));
      p.kernels.multiply_add(y.row(t), centered.row(t), n, dx.row(t));
    });
  });
  return y;
}

namespace {

/// The indices of all numbers, the k largest first, in descending order; of equal ones the lower index first.
std::vector<std::size_t> largest_first(const std::vector<float>& x, std::int64_t k) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::size_t a, std::size_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
  return order;
}

/// Makes the ranks outside the best groups −∞.
void leave_out_groups(const RouterConfig& c, std::vector<float>& ranks) {
  if (c.top_groups == c.groups) return;
  const auto size = static_cast<std::ptrdiff_t>(ranks.size()) / c.groups;
  const bool by_two = c.group_rank == RouterConfig::GroupRank::two_largest;
  std::vector<float> best;
  for (auto first = ranks.begin(); first != ranks.end(); first += size) {
    const std::vector<float> group(first, first + size);
    const std::vector<std::size_t> order = largest_first(group, by_two ? 2 : 1);
    best.push_back(by_two ? group[order[0]] + group[order[1]] : group[order[0]]);
  }
  const std::vector<std::size_t> order = largest_first(best, c.top_groups);
  for (auto g = order.begin() + c.top_groups; g != order.end(); ++g) {
    std::fill_n(ranks.begin() + static_cast<std::ptrdiff_t>(*g) * size, size, -INFINITY);
  }
}

}  // namespace

Tensor choose_experts(Pass& p, const RouterConfig& c, const Tensor& scores, const Param& correction, std::int64_t k) {
  const std::int64_t n = scores.row_size();
  const Tensor chosen = p.tensor({scores.rows(), k});
  if (correction.present() && p.ledger != nullptr) p.ledger->reads(correction);
  const float* const added = correction.present() ? p.vector(correction) : nullptr;
  p.for_rows(scores.rows(), 4 * n, [&](std::int64_t t) {
    std::vector<float> ranks(scores.row(t), scores.row(t) + n);
    if (added != nullptr) p.kernels.add(ranks.data(), added, n, ranks.data());
    leave_out_groups(c, ranks);
    const std::vector<std::size_t> order = largest_first(ranks, k);
    std::transform(order.begin(), order.begin() + k, chosen.row(t),
                   [](std::size_t e) { return static_cast<float>(e); });
  });
  return chosen;
}

Tensor chosen_weights(Pass& p, const RouterConfig& c, const Tensor& scores, const Tensor& chosen, bool renormalize) {
  const std::int64_t n = scores.row_size(), k = chosen.row_size();
  const Tensor weights = p.tensor(scores.shape), total = p.tensor({chosen.rows()});
  const auto expert = [chosen](std::int64_t t, std::int64_t r) { return static_cast<std::int64_t>(chosen.row(t)[r]); };
  const auto sum_of_chosen = [expert, k, scores](std::int64_t t) {
    float sum = 0;
    for (std::int64_t r = 0; r < k; ++r) sum += scores.row(t)[expert(t, r)];
    return sum;
  };
  p.for_rows(chosen.rows(), n + 4 * k, [&](std::int64_t t) {
    std::fill_n(weights.row(t), n, 0.0f);
    total.data[t] = renormalize ? std::max(sum_of_chosen(t), c.min) + c.eps : 1.0f;
    for (std::int64_t r = 0; r < k; ++r) {
      weights.row(t)[expert(t, r)] = scores.row(t)[expert(t, r)] / total.data[t] * c.scale;
    }
  });
  // dscore = (scale · dw − Σ w · dw) / total; the sum is 0 if total does not depend on the scores
  p.record(OpKind::chosen_weights, {scores}, weights,
           [&p, &c, k, renormalize, scores, expert, sum_of_chosen, weights, total] {
             const Tensor dscores = p.grad(scores), dweights = p.grad(weights);
             p.for_rows(weights.rows(), 4 * k, [&](std::int64_t t) {
               const float *const w = weights.row(t), *const dw = dweights.row(t);
               const bool is_divided = renormalize && sum_of_chosen(t) > c.min;
               float mean = 0;
               for (std::int64_t r = 0; is_divided && r < k; ++r) mean += w[expert(t, r)] * dw[expert(t, r)];
               for (std::int64_t r = 0; r < k; ++r) {
                 dscores.row(t)[expert(t, r)] += (c.scale * dw[expert(t, r)] - mean) / total.data[t];
               }
             });
           });
  return weights;
}

Tensor shares_of(Pass& p, const Tensor& weights, const Tensor& chosen, bool renormalize) {
  const std::int64_t k = chosen.row_size();
  const Tensor shares = p.tensor(chosen.shape), total = p.tensor({chosen.rows()});
  const auto expert = [chosen](std::int64_t t, std::int64_t r) { return static_cast<std::int64_t>(chosen.row(t)[r]); };
  p.for_rows(chosen.rows(), 4 * k, [&](std::int64_t t) {
    float* share = shares.row(t);
    for (std::int64_t r = 0; r < k; ++r) share[r] = weights.row(t)[expert(t, r)];
    total.data[t] = renormalize ? p.kernels.sum(share, k) : 1.0f;
    if (renormalize) p.kernels.normalize(share, k, 0.0f, total.data[t], share);
  });
  // dweight = (dshare − Σ share · dshare) / total; the sum is 0 without renormalization
  p.record(OpKind::shares_of, {weights}, shares, [&p, k, renormalize, weights, expert, shares, total] {
    const Tensor dweights = p.grad(weights), dshares = p.grad(shares);
    p.for_rows(shares.rows(), 4 * k, [&](std::int64_t t) {
      const float mean = renormalize ? p.kernels.dot(shares.row(t), dshares.row(t), k) : 0.0f;
      for (std::int64_t r = 0; r < k; ++r) {
        dweights.row(t)[expert(t, r)] += (dshares.row(t)[r] - mean) / total.data[t];
      }
    });
  });
  return shares;
}

namespace {

/// E · Σ_e f_e · P_e of one segment. dP_e / dweights[t, e] = 1 / length; f has no gradient.
void balance_loss(Pass& p, const Segment& s, const Tensor& weights, const Tensor& chosen) {
  const std::int64_t n_experts = weights.row_size(), k = chosen.row_size();
  std::vector<float> part(static_cast<std::size_t>(n_experts));
  for (const float e : chosen.row_range(s.first_row, s.length).values()) part[static_cast<std::size_t>(e)] += 1.0f;
  for (float& f : part) f /= static_cast<float>(s.length * k);
  if (!p.training.recomputing) {
    double loss = 0;
    for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
      loss += static_cast<double>(p.kernels.dot(weights.row(t), part.data(), n_experts));
    }
    p.training.result->balance_sum += static_cast<double>(n_experts) * loss / static_cast<double>(s.length);
  }
  if (!p.is_taped()) return;
  const float factor = p.training.loss->balance * p.training.loss->router_scale * static_cast<float>(n_experts) /
                       static_cast<float>(s.length);
  p.training.tape->watch(weights, [&p, &s, n_experts, factor, part](const Tensor& dweights) {
    for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
      p.kernels.add_scaled(part.data(), n_experts, factor, dweights.row(t));
    }
  });
}

/// The same loss over all layers of the pass. All choices are known by the time the tape is unwound.
void balance_loss_of_layers(Pass& p, const Tensor& weights, const Tensor& chosen) {
  const LossRequest& loss = *p.training.loss;
  LossResult& found = *p.training.result;
  const std::int64_t n_experts = weights.row_size();
  const auto n = static_cast<std::size_t>(n_experts);
  if (!p.training.recomputing) {
    found.choices.resize(n);
    found.choice_weights.resize(n);
    for (const float e : chosen.values()) found.choices[static_cast<std::size_t>(e)] += 1;
    for (std::int64_t t = 0; t < weights.rows(); ++t) {
      for (std::size_t e = 0; e < n; ++e) found.choice_weights[e] += static_cast<double>(weights.row(t)[e]);
    }
    found.routed_rows += weights.rows();
  }
  if (!p.is_taped()) return;
  p.training.tape->watch(weights, [&p, &loss, &found, n_experts](const Tensor& dweights) {
    const auto rows = static_cast<double>(found.routed_rows);
    const double share = static_cast<double>(loss.router_scale) * static_cast<double>(p.segments.size());
    const double factor = static_cast<double>(loss.balance) * share * static_cast<double>(n_experts) / (rows * rows);
    std::vector<float> slope;
    for (const double choices : found.choices) slope.push_back(static_cast<float>(factor * choices));
    for (std::int64_t t = 0; t < dweights.rows(); ++t) {
      p.kernels.add(dweights.row(t), slope.data(), n_experts, dweights.row(t));
    }
  });
}

/// The mean of log_z² over the segment, log_z = log Σ exp logits. Its gradient is 2 · log_z · softmax / length.
void router_z_loss(Pass& p, const Segment& s, const Tensor& logits, const Tensor& weights) {
  const std::int64_t n_experts = logits.row_size();
  std::vector<float> log_z(static_cast<std::size_t>(s.length)), scratch(static_cast<std::size_t>(n_experts));
  double sum = 0;
  for (std::int64_t i = 0; i < s.length; ++i) {
    const float* const x = logits.row(s.first_row + i);
    const float most = p.kernels.max(x, n_experts);
    const float sum_of_exp = p.kernels.exp_sum(x, n_experts, most, scratch.data());
    const float z = static_cast<float>(math::log(static_cast<double>(sum_of_exp))) + most;
    log_z[static_cast<std::size_t>(i)] = z;
    sum += static_cast<double>(z) * static_cast<double>(z);
  }
  if (!p.training.recomputing) p.training.result->router_z_sum += sum / static_cast<double>(s.length);
  if (!p.is_taped()) return;
  const float factor = 2.0f * p.training.loss->router_z * p.training.loss->router_scale / static_cast<float>(s.length);
  p.training.tape->watch(logits, [&p, &s, n_experts, factor, weights, log_z](const Tensor& dlogits) {
    for (std::int64_t i = 0; i < s.length; ++i) {
      const std::int64_t t = s.first_row + i;
      p.kernels.add_scaled(weights.row(t), n_experts, factor * log_z[static_cast<std::size_t>(i)], dlogits.row(t));
    }
  });
}

}  // namespace

void router_losses(Pass& p, const Tensor& logits, const Tensor& weights, const Tensor& chosen, Stack stack) {
  if (p.training.loss == nullptr || p.shapes_only) return;
  if (p.training.loss->balance > 0 && p.training.loss->balance_over_layers) balance_loss_of_layers(p, weights, chosen);
  for (const Segment& s : p.segments_of(stack)) {
    if (p.training.loss->balance > 0 && !p.training.loss->balance_over_layers) balance_loss(p, s, weights, chosen);
    if (p.training.loss->router_z > 0) router_z_loss(p, s, logits, weights);
  }
}

void count_choices(const Pass& p, const Param& correction, const Tensor& chosen, std::int64_t n_experts) {
  const LossRequest* const loss = p.training.loss;
  if (loss == nullptr || !loss->counts_choices || p.training.recomputing || p.shapes_only) return;
  std::vector<std::int64_t>& counts = p.training.result->choices_of[&correction];
  counts.resize(static_cast<std::size_t>(n_experts));
  for (const float e : chosen.values()) ++counts[static_cast<std::size_t>(e)];
}

Tensor take_rows(Pass& p, const Tensor& x, const std::vector<std::int64_t>& rows) {
  const auto n = static_cast<std::int64_t>(rows.size());
  const std::int64_t d = x.row_size();
  const Tensor y = p.tensor({n, d});
  p.for_rows(n, d, [&](std::int64_t i) { std::copy_n(x.row(rows[static_cast<std::size_t>(i)]), d, y.row(i)); });
  p.record(OpKind::take_rows, {x}, y, [&p, d, rows, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    for (std::size_t i = 0; i < rows.size() && !p.shapes_only; ++i) {
      p.kernels.add(dx.row(rows[i]), dy.row(static_cast<std::int64_t>(i)), d, dx.row(rows[i]));
    }
  });
  return y;
}

Tensor mix_results(Pass& p, const Tensor& shares, const Tensor& results) {
  const std::int64_t k = shares.row_size(), d = results.row_size();
  const Tensor y = p.tensor({shares.rows(), d});
  p.for_rows(y.rows(), d * k, [&](std::int64_t t) {
    std::fill_n(y.row(t), d, 0.0f);
    p.kernels.weighted_rows(shares.row(t), k, 1, view_of(results.row(t * k), k, d, d), y.row(t), d);
  });
  p.record(OpKind::mix_results, {shares, results}, y, [&p, k, d, shares, results, y] {
    const Tensor dshares = p.grad(shares), dresults = p.grad(results), dy = p.grad(y);
    p.for_rows(y.rows(), 2 * d * k, [&](std::int64_t t) {
      for (std::int64_t r = 0; r < k; ++r) {
        dshares.row(t)[r] += p.kernels.dot(results.row(t * k + r), dy.row(t), d);
        p.kernels.add_scaled(dy.row(t), d, shares.row(t)[r], dresults.row(t * k + r));
      }
    });
  });
  return y;
}

namespace {

Cell mix_results_cell(const OpView& v, std::int64_t i) {
  const Seen &shares = v.input(0), &results = v.input(1);
  const std::int64_t k = shares.last_size(), d = results.last_size(), t = i / d;
  return dot(v, shares, t * k, 1, results, t * k * d + i % d, d, k);
}

constexpr std::string_view kRoute = "src/ops/route.cpp";

}  // namespace

constexpr OpDescription softmax_rows_op{kRoute, {kSoftmax, softmax_cell}, kSoftmaxGradient};
constexpr OpDescription chosen_weights_op{
    kRoute, {"\"weight\"_{t,e(r)} = \"score\"_{t,e(r)} · \"scale\" / Σ"}, {"d\"weight\"_{t,e(r)}"}};
constexpr OpDescription shares_of_op{kRoute, {"\"share\"_{t,r} = w_{t,e(r)}"}, {"d\"share\"_{t,r}"}};
constexpr OpDescription take_rows_op{kRoute, {"$y = \"rows of\" x"}, {"d$y"}};
constexpr OpDescription run_experts_op{"src/model/mixers/experts/experts.cpp", {"$y = \"rows of\" x"}, {"d$y"}};
constexpr OpDescription mix_results_op{kRoute,
                                       {"$y_{t} = Σ_{r} \"share\"_{t,r} · \"result\"_{t,r}", mix_results_cell},
                                       {"Σ_{i} d$y_{t,i} · \"result\"_{t,r,i}", nullptr, "\"share\"_{t,r} · d$y_{t}"}};

}  // namespace vitrine
