#include "inspect/account.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "model/count.h"

namespace vitrine {
namespace {

constexpr double kFloat = 4;

double as_double(std::int64_t n) { return static_cast<double>(n); }

/// Bytes of one token's keys (or values) of one head.
double kv_row_bytes(std::int64_t head_dim, DType kv) {
  return as_double(head_dim * size_of(kv)) + (kv == DType::i8 ? kFloat : 0);
}

/// Keys that n queries see in all, the first of them with `past` tokens before it.
double visible_keys(double past, double n, std::optional<std::int64_t> window) {
  const double all = n * past + n * (n + 1) / 2;
  if (!window) return all;
  const double w = as_double(*window);
  const double full = std::clamp(w - past, 0.0, n);  // queries that see everything before them
  return full * past + full * (full + 1) / 2 + (n - full) * w;
}

/// Makes the ops of one workload.
class Accountant {
 public:
  Accountant(const ModelConfig& config, const Workload& w)
      : config_(config),
        w_(w),
        n_(w.phase == Phase::decode ? 1 : w.length),
        rows_(w.batch * n_),
        d_(config.d_model),
        factor_(w.phase == Phase::train ? 3 : 1) {}

  std::vector<Op> first() const {
    const double vectors = config_.embedding.learned_positions ? 2 : 1;
    const double values = as_double(rows_) * as_double(d_);
    Cost cost;
    cost.weight_bytes = vectors * values * w_.bytes_per_weight;  // the rows that are looked up, no more
    cost.activation_bytes = vectors * values * kFloat;
    return {finished("embed", shape({rows_, d_}), cost)};
  }

  std::vector<Op> layer(const BlockConfig& block) const {
    const AttentionConfig& a = block.attention;
    const std::int64_t d_q = a.n_heads * a.head_dim, d_kv = a.n_kv_heads * a.head_dim;
    std::vector<Op> ops;
    if (block.norms.attn_pre) ops.push_back(norm("ln1"));
    ops.push_back(linear("attn.wq", d_, d_q));
    ops.push_back(linear("attn.wk", d_, d_kv));
    ops.push_back(linear("attn.wv", d_, d_kv));
    if (a.qk_norm) {
      ops.push_back(
          elementwise("attn.qk_norm", shape({rows_, a.n_heads + a.n_kv_heads, a.head_dim}), d_q + d_kv, d_q + d_kv));
    }
    if (a.rope)
      ops.push_back(
          elementwise("attn.rope", shape({rows_, a.n_heads + a.n_kv_heads, a.head_dim}), d_q + d_kv, d_q + d_kv));
    ops.push_back(attend("attn.scores", a, d_q, 0));
    ops.push_back(attend("attn.mix", a, 0, d_q));
    ops.push_back(linear("attn.wo", d_q, d_));
    if (block.norms.attn_post) ops.push_back(norm("ln1_post"));
    ops.push_back(elementwise("resid_mid", shape({rows_, d_}), 2 * d_, d_));
    if (block.norms.ffn_pre) ops.push_back(norm("ln2"));
    if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) {
      add_experts(ops, *moe);
    } else {
      add_ffn(ops, "mlp.", std::get<DenseConfig>(block.ffn), rows_, 1);
    }
    if (block.norms.ffn_post) ops.push_back(norm("ln2_post"));
    ops.push_back(elementwise("resid_post", shape({rows_, d_}), 2 * d_, d_));
    return ops;
  }

  std::vector<Op> last() const {
    const bool everywhere = w_.phase == Phase::forward || w_.phase == Phase::train;
    const std::int64_t rows = everywhere ? rows_ : w_.batch;
    return {norm("ln_final", rows), linear("unembed", d_, config_.vocab_size, rows)};
  }

 private:
  static std::string shape(std::initializer_list<std::int64_t> sizes) { return to_string(Shape(sizes)); }

  Op finished(std::string name, std::string shape_text, const Cost& cost) const {
    return {std::move(name), std::move(shape_text), cost * factor_};
  }

  Op linear(std::string name, std::int64_t in, std::int64_t out) const {
    return linear(std::move(name), in, out, rows_);
  }
  /// `n_matrices`: the rows are shared out among so many matrices, of which each is read.
  Op linear(std::string name, std::int64_t in, std::int64_t out, std::int64_t rows, double n_matrices = 1) const {
    Cost cost;
    cost.flops = cost.visible_flops = 2 * as_double(rows) * as_double(in) * as_double(out);
    cost.weight_bytes = n_matrices * as_double(in) * as_double(out) * w_.bytes_per_weight;
    cost.activation_bytes = as_double(rows) * as_double(in + out) * kFloat;
    return finished(std::move(name), shape({rows, in}) + " × " + shape({in, out}), cost);
  }

  /// The products and the curve of a feed-forward sublayer over `rows` rows.
  void add_ffn(std::vector<Op>& ops, const std::string& at, const DenseConfig& c, std::int64_t rows,
               double n_matrices) const {
    if (c.gated) ops.push_back(linear(at + "w_gate", d_, c.d_ff, rows, n_matrices));
    ops.push_back(linear(at + "w_up", d_, c.d_ff, rows, n_matrices));
    Cost cost;
    cost.activation_bytes = as_double(rows) * as_double(c.gated ? 3 * c.d_ff : 2 * c.d_ff) * kFloat;
    ops.push_back(finished(at + "act", shape({rows, c.d_ff}), cost));
    ops.push_back(linear(at + "w_down", c.d_ff, d_, rows, n_matrices));
  }

  /// Only chosen experts are computed and read; how many a pass reads is at most one for each choice.
  void add_experts(std::vector<Op>& ops, const MoeConfig& c) const {
    ops.push_back(linear("mlp.router", d_, c.n_experts));
    const std::int64_t choices = rows_ * c.top_k;
    add_ffn(ops, "mlp.experts.", c.expert, choices, as_double(std::min(choices, c.n_experts)));
    ops.push_back(elementwise("mlp.sum", shape({rows_, c.top_k, d_}), c.top_k * d_, d_));
    if (!c.shared) return;
    add_ffn(ops, "mlp.shared.", *c.shared, rows_, 1);
    ops.push_back(linear("mlp.shared_gate", d_, 1));
  }

  Op norm(const char* name) const { return norm(name, rows_); }
  Op norm(const char* name, std::int64_t rows) const {
    Cost cost;
    cost.weight_bytes = as_double(d_) * w_.bytes_per_weight;
    cost.activation_bytes = as_double(rows) * as_double(2 * d_) * kFloat;
    return finished(name, shape({rows, d_}), cost);
  }

  /// `reads` and `writes`: elements of a row.
  Op elementwise(const char* name, std::string shape_text, std::int64_t reads, std::int64_t writes) const {
    Cost cost;
    cost.activation_bytes = as_double(rows_) * as_double(reads + writes) * kFloat;
    return finished(name, std::move(shape_text), cost);
  }

  /// One of attention's two products: it reads the keys or the values of every position, and appends its own.
  Op attend(const char* name, const AttentionConfig& a, std::int64_t reads, std::int64_t writes) const {
    const double past = w_.phase == Phase::decode ? as_double(w_.length - 1) : 0;
    const double n = as_double(n_), batch = as_double(w_.batch);
    double keys = past + n;
    if (w_.phase == Phase::decode && a.window) keys = std::min(keys, as_double(*a.window));  // a ring holds no more
    Cost cost;
    const double per_pair = 2 * batch * as_double(a.n_heads * a.head_dim);
    cost.flops = per_pair * n * keys;
    cost.visible_flops = per_pair * visible_keys(past, n, a.window);
    cost.activation_bytes = as_double(rows_) * as_double(reads + writes) * kFloat;
    cost.kv_bytes = batch * as_double(a.n_kv_heads) * (keys + n) * kv_row_bytes(a.head_dim, w_.kv);
    cost.map_bytes = batch * as_double(a.n_heads) * n * keys * kFloat;
    const std::int64_t s = static_cast<std::int64_t>(keys);
    const std::string queries = shape({w_.batch, a.n_heads, n_, reads > 0 ? a.head_dim : s});
    const std::string others = shape({w_.batch, a.n_kv_heads, reads > 0 ? a.head_dim : s, reads > 0 ? s : a.head_dim});
    return finished(name, queries + " × " + others, cost);
  }

  const ModelConfig& config_;
  const Workload& w_;
  std::int64_t n_;     // tokens of a sequence in this pass
  std::int64_t rows_;  // tokens of the pass
  std::int64_t d_;
  double factor_;
};

/// Values of the experts that a token chose, and of the expert of all.
double expert_elements(const BlockConfig& block, const Extent& extent) {
  const auto& moe = std::get<MoeConfig>(block.ffn);
  const double shared = moe.shared ? as_double(moe.shared->d_ff) / as_double(moe.expert.d_ff) : 0;
  return extent.letter == 'n' ? as_double(moe.top_k) + shared : as_double(extent.size);
}

/// Float32 elements that one token's values take, over all sites of a block but attention's maps.
double block_elements(const ModelConfig& config, int layer) {
  const BlockConfig& block = config.blocks[static_cast<std::size_t>(layer)];
  double sum = 0;
  for (const SiteLayout& site : site_layout(config, layer)) {
    const bool is_map =
        std::any_of(site.shape.begin(), site.shape.end(), [](const Extent& e) { return e.letter == 'S'; });
    if (!info(site.site.site).in_block || is_map) continue;
    double elements = 1;
    const bool of_experts = info(site.site.site).in_expert();
    for (const Extent& extent : site.shape) {
      elements *= of_experts ? expert_elements(block, extent) : extent.letter == 0 ? as_double(extent.size) : 1.0;
    }
    sum += elements;
  }
  return sum;
}

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 4> kNames = {"forward", "prefill", "decode", "train"};
  return kNames[static_cast<std::size_t>(phase)];
}

Cost& Cost::operator+=(const Cost& o) {
  flops += o.flops;
  visible_flops += o.visible_flops;
  weight_bytes += o.weight_bytes;
  activation_bytes += o.activation_bytes;
  kv_bytes += o.kv_bytes;
  map_bytes += o.map_bytes;
  return *this;
}

Cost Cost::operator*(double times) const {
  return {flops * times,    visible_flops * times, weight_bytes * times, activation_bytes * times,
          kv_bytes * times, map_bytes * times};
}

Account account(const ModelConfig& config, const Workload& workload) {
  if (workload.batch < 1 || workload.batch > 1 << 20) {
    throw BadInput("batch", "expected 1 to {}, got {}", 1 << 20, workload.batch);
  }
  if (workload.length < 1 || workload.length > config.max_seq_len) {
    throw BadInput("length", "expected 1 to {} (the model's context), got {}", config.max_seq_len, workload.length);
  }
  const Accountant accountant(config, workload);
  Account result;
  result.first = accountant.first();
  for (LayerGroup& group : layer_groups(config)) {
    std::vector<Op> ops = accountant.layer(config.blocks[static_cast<std::size_t>(group.first())]);
    for (const Op& op : ops) result.total += op.cost * as_double(group.count());
    result.layers.push_back({std::move(group), std::move(ops)});
  }
  result.last = accountant.last();
  for (const Op& op : result.first) result.total += op.cost;
  for (const Op& op : result.last) result.total += op.cost;
  return result;
}

double kv_bytes_per_token(const ModelConfig& config, DType kv) {
  double sum = 0;
  for (const KvLayerConfig& layer : kv_layers(config)) {
    if (!layer.window) sum += 2 * as_double(layer.n_kv_heads) * kv_row_bytes(layer.head_dim, kv);
  }
  return sum;
}

MemoryEstimate estimate_memory(const ModelConfig& config, const Workload& w, std::int64_t chunk) {
  const bool trains = w.phase == Phase::train;
  const double n_params = as_double(count_params(config)), batch = as_double(w.batch);
  MemoryEstimate m;
  m.weights = n_params * (trains ? kFloat : w.bytes_per_weight);
  if (trains) {
    m.optimizer = n_params * 3 * kFloat;
    for (const LayerGroup& group : layer_groups(config)) {
      m.activations +=
          as_double(group.count()) * block_elements(config, group.first()) * batch * as_double(w.length) * kFloat;
    }
    return m;
  }
  for (const KvLayerConfig& layer : kv_layers(config)) {
    const std::int64_t slots = std::min(w.length, layer.window.value_or(w.length));
    m.kv_cache += 2 * batch * as_double(slots * layer.n_kv_heads) * kv_row_bytes(layer.head_dim, w.kv);
  }
  const double rows = batch * as_double(w.phase == Phase::decode ? 1 : std::min(chunk, w.length));
  double widest = 0;
  for (const LayerGroup& group : layer_groups(config)) widest = std::max(widest, block_elements(config, group.first()));
  const double logits = std::max(as_double(config.vocab_size), std::min(rows * as_double(config.vocab_size), 0x1p24));
  // The arena takes memory in chunks of growing size: a quarter more.
  m.activations = 1.25 * (rows * (widest + 2 * as_double(config.d_model)) + 2 * logits) * kFloat;
  return m;
}

}  // namespace vitrine
