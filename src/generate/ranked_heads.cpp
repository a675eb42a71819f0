#include "generate/ranked_heads.h"

#include <algorithm>

#include "base/error.h"
#include "generate/ranked_layers.h"

namespace vitrine {

std::vector<std::int64_t> divide_heads(std::int64_t n_heads, std::int64_t n_kv_heads, int n) {
  const std::int64_t group = n_heads / n_kv_heads, per_group = n / n_kv_heads;  // ranks
  if (n > n_kv_heads && (n % n_kv_heads != 0 || n > n_heads)) {
    throw BadInput("--split", "expected at most {} ranks (the K/V heads), or a multiple of them up to {}, got {}",
                   n_kv_heads, n_heads, n);
  }
  std::vector<std::int64_t> heads;
  for (std::int64_t r = 0; r <= n; ++r) {
    heads.push_back(n <= n_kv_heads ? n_kv_heads * r / n * group
                                    : r / per_group * group + group * (r % per_group) / per_group);
  }
  return heads;
}

RankedHeads::RankedHeads(Ranks& ranks, std::shared_ptr<const Model> model) : ranks_(ranks) {
  check_splits(ranks, *model);
  ModelConfig config = model->config();
  ModelParams params = model->params();
  ranks.together([&] {
    const AttentionConfig first = config.blocks.front().attention();
    heads_ = divide_heads(first.n_heads, first.n_kv_heads, ranks.size());
    for (std::size_t i = 0; i < config.blocks.size(); ++i) {
      const AttentionConfig& c = config.blocks[i].attention();
      const bool is_alike = c.n_heads == first.n_heads && c.n_kv_heads == first.n_kv_heads;
      if (!is_alike || (c.qk_norm && c.qk_norm->over == QkNormConfig::Over::all_heads)) {
        throw Unsupported("--split", "expected heads that are alike in all layers and have no norm in common");
      }
      divide(config.blocks[i], params.blocks[i]);
    }
    if (config.head.tied) params.unembed.weight = params.embed;
    config.head.tied = false;
    params.unembed = part_of(params.unembed);
  });
  const std::vector<std::shared_ptr<const void>> storage = {model};
  part_ = std::make_shared<const Model>(std::move(config), std::move(params), storage);
}

Param RankedHeads::rows_of(const Param& param, std::int64_t first, std::int64_t end) const {
  if (!param.present()) return param;
  Param part = param;
  const bool is_vector = param.shape.rank() == 1;
  part.view = is_vector ? param.view.col_range(first, end - first) : param.view.row_range(first, end - first);
  part.shape = is_vector ? Shape{end - first} : Shape{end - first, param.shape[1]};
  return part;
}

LinearParams RankedHeads::rows_of(const LinearParams& w, std::int64_t first, std::int64_t end) const {
  return {rows_of(w.weight, first, end), rows_of(w.bias, first, end)};
}

LinearParams RankedHeads::part_of(const LinearParams& w) const {
  if (!w.weight.present()) return w;
  const std::int64_t n = w.weight.shape[0];
  return rows_of(w, cut(n, ranks_.rank()), cut(n, ranks_.rank() + 1));
}

void RankedHeads::divide(AttentionConfig& c, AttentionParams& w) const {
  const std::int64_t group = c.n_heads / c.n_kv_heads, d = c.head_dim;
  const std::int64_t first = heads_[static_cast<std::size_t>(ranks_.rank())];
  const std::int64_t end = heads_[static_cast<std::size_t>(ranks_.rank()) + 1];
  const std::int64_t first_kv = first / group, end_kv = (end + group - 1) / group;
  w.wq = rows_of(w.wq, first * d, end * d);
  w.wk = rows_of(w.wk, first_kv * d, end_kv * d);
  w.wv = rows_of(w.wv, first_kv * d, end_kv * d);
  w.wo = part_of(w.wo);
  if (c.qk_norm && c.qk_norm->over == QkNormConfig::Over::head_own_weight) {
    w.q_norm = {rows_of(w.q_norm.weight, first * d, end * d), rows_of(w.q_norm.bias, first * d, end * d)};
    w.k_norm = {rows_of(w.k_norm.weight, first_kv * d, end_kv * d), rows_of(w.k_norm.bias, first_kv * d, end_kv * d)};
  }
  c.n_heads = end - first;
  c.n_kv_heads = end_kv - first_kv;
}

void RankedHeads::divide(DenseConfig& c, FfnParams& w) const {
  w.w_gate = part_of(w.w_gate);
  w.w_up = part_of(w.w_up);
  w.w_down = part_of(w.w_down);
  c.d_ff = cut(c.d_ff, ranks_.rank() + 1) - cut(c.d_ff, ranks_.rank());
}

/// Every rank computes all of the router, which is small.
void RankedHeads::divide(BlockConfig& c, BlockParams& w) const {
  divide(c.attention(), w.attention);
  auto* const moe = std::get_if<MoeConfig>(&c.ffn);
  if (moe == nullptr) return divide(std::get<DenseConfig>(c.ffn), w.ffn);
  const DenseConfig expert = moe->expert;
  for (FfnParams& own : w.moe.experts) divide(moe->expert = expert, own);
  if (moe->shared) divide(*moe->shared, w.moe.shared);
}

void RankedHeads::gather(const Tensor& own, const Tensor& whole, std::int64_t unit) {
  const auto n_units = whole.row_size() / unit;
  const auto bound = [&](int rank) {
    return unit == 1 ? cut(n_units, rank) : heads_[static_cast<std::size_t>(rank)] * unit;
  };
  const std::int64_t n_rows = whole.rows();
  std::vector<std::vector<float>> parts(static_cast<std::size_t>(ranks_.size()));
  Tickets tickets;
  for (int i = 1; i < ranks_.size(); ++i) {
    const int from = (ranks_.rank() + ranks_.size() - i) % ranks_.size(), to = (ranks_.rank() + i) % ranks_.size();
    std::vector<float>& part = parts[static_cast<std::size_t>(from)];
    part.resize(static_cast<std::size_t>(n_rows * (bound(from + 1) - bound(from))));
    append(tickets, ranks_.receive(from, std::as_writable_bytes(std::span(part)), Channel::weights));
    append(tickets, ranks_.send(to, std::as_bytes(own.values()), Channel::weights));
  }
  ranks_.wait(tickets);
  for (int r = 0; r < ranks_.size(); ++r) {
    const std::int64_t first = bound(r), n = bound(r + 1) - first;
    const float* const from = r == ranks_.rank() ? own.data : parts[static_cast<std::size_t>(r)].data();
    for (std::int64_t row = 0; row < n_rows; ++row) std::copy_n(from + row * n, n, whole.row(row) + first);
  }
}

}  // namespace vitrine
