#include "model/mixers/latent_attention/latent_attention.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "base/math.h"
#include "model/checks.h"
#include "model/mixers/attention/head_inputs.h"
#include "model/mixers/attention/split_heads.h"
#include "ops/elementwise.h"

namespace vitrine {

HeadRows LatentAttentionConfig::key_rows(bool of_queries) const {
  if (keys_apart) return {rank, 0, rank, !of_queries};
  return {nope_dim + head_value_dim, 0, nope_dim, of_queries};
}

HeadRows LatentAttentionConfig::value_rows() const {
  if (keys_apart) return {head_value_dim, 0, head_value_dim};
  return {nope_dim + head_value_dim, nope_dim, head_value_dim};
}

namespace {

using Config = LatentAttentionConfig;
using Parts = ModelSplit::Parts;

const Param& key_weight(const Config& c, const LatentAttentionParams& w) {
  return (c.keys_apart ? w.wk_b : w.wkv_b).weight;
}
const Param& value_weight(const Config& c, const LatentAttentionParams& w) {
  return (c.keys_apart ? w.wv_b : w.wkv_b).weight;
}

/// The vectors of a and b `[T, n, …]` next to each other.
Tensor join(Pass& p, const Tensor& a, const Tensor& b) {
  const std::int64_t rows = a.shape[0], n = a.shape[1], size = a.shape[2] + b.shape[2];
  return concat(p, a.reshaped({rows * n, a.shape[2]}), b.reshaped({rows * n, b.shape[2]})).reshaped({rows, n, size});
}

/// The elements of x `[T, n, …]` from `first` on, rotated.
Tensor rotated(Pass& p, const Config& c, const SublayerInput& in, const Tensor& x, std::int64_t first) {
  const Tensor part = part_of_heads(p, x, first, c.rope.dim, c.rope_pairs);
  return c.positions ? rope(p, c.rope, in.rope->of(c.rope), part) : part;
}

/// `[T, H, nope + rot]`, after RoPE and the factors by position.
Tensor queries(Pass& p, BlockSite at, const Config& c, const LatentAttentionParams& w, const SublayerInput& in) {
  const Shape shape{in.normed.rows(), c.n_heads, c.query_dim()};
  const Tensor x =
      c.q_rank ? norm(p, at(kQLatentNorm), c.latent_norm, w.q_norm, linear(p, w.wq_a, in.normed)) : in.normed;
  const AddedSite added{at(AttentionSite::lora_q), shape};
  const Tensor q = linear(p, c.q_rank ? w.wq_b : w.wq, x, added).reshaped(shape);
  const Tensor end = p.tap(at(LatentSite::rot_q), rotated(p, c, in, q, c.nope_dim));
  const Tensor all = p.tap(at(LatentSite::q), join(p, part_of_heads(p, q, 0, c.nope_dim), end));
  return c.query_scale ? scale_queries(p, at, *c.query_scale, all) : all;
}

/// What all heads read of the tokens.
struct Latent {
  Tensor c;  // [T, 1, rank]
  Tensor r;  // [T, 1, rot]
};

Latent latent(Pass& p, BlockSite at, const Config& c, const LatentAttentionParams& w, const SublayerInput& in) {
  const std::int64_t n = in.normed.rows();
  const Tensor both = linear(p, w.wkv_a, in.normed).reshaped({n, 1, c.head_dim});
  const Tensor down = part_of_heads(p, both, 0, c.rank).reshaped({n, c.rank});
  const Tensor normed = norm(p, at(kKvLatentNorm), c.latent_norm, w.kv_norm, down);
  return {normed.reshaped({n, 1, c.rank}), p.tap(at(LatentSite::rot_k), rotated(p, c, in, both, c.rank))};
}

/// Shows a derived value, which a tap cannot change.
void show(Pass& p, BlockSite at, LatentSite site, const Tensor& value) {
  const Tensor tapped = p.tap(at(site), value);
  const bool is_same =
      tapped.data == value.data || p.shapes_only || std::ranges::equal(tapped.values(), value.values());
  if (is_same) return;
  throw BadInput(name_of(at(site)), "a value that is derived from {} cannot be written: write to that site",
                 name_of(at(LatentSite::kv_latent)));
}

/// Shows keys and values by head to taps, which alone need them. Nothing reads them, so they have no gradients, and are
/// not shown where there is a tape.
void show_keys_and_values(Pass& p, BlockSite at, const Config& c, const LatentAttentionParams& w, const Latent& of) {
  const bool wants_k = p.wants(at(LatentSite::k)), wants_v = p.wants(at(LatentSite::v));
  if (p.is_taped() || (!wants_k && !wants_v)) return;
  const ArenaScope scope(p.arena);
  const auto of_each_head = [&](const Tensor& x) { return repeat(p, x.reshaped({x.rows(), x.row_size()}), c.n_heads); };
  const Tensor each = of_each_head(of.c);
  if (wants_k) {
    const Tensor keys = heads_rows(p, key_weight(c, w), c.key_rows(false), each);
    show(p, at, LatentSite::k, join(p, keys, of_each_head(of.r)));
  }
  if (wants_v) show(p, at, LatentSite::v, heads_rows(p, value_weight(c, w), c.value_rows(), each));
}

}  // namespace

Tensor forward(Pass& p, BlockSite at, const Config& c, const LatentAttentionParams& w, const SublayerInput& in) {
  const Tensor q = queries(p, at, c, w, in);
  const Latent own = latent(p, at, c, w, in);
  show_keys_and_values(p, at, c, w, own);
  const Tensor row = join(p, own.c, own.r);
  const std::vector<KeySource> sources = key_sources(p, at, row, row.reshaped(own.c.shape));
  if (p.ends_before(at(AttentionSite::scores_raw))) {
    append(p, at, sources);
    return {};
  }
  const Tensor absorbed =
      join(p, heads_rows(p, key_weight(c, w), c.key_rows(true), q), part_of_heads(p, q, c.nope_dim, c.rope.dim));
  const Tensor mixed = attend(p, at, c, {}, absorbed, row, own.c, sources);
  append(p, at, sources);
  const Tensor z = p.tap(at(AttentionSite::z), heads_rows(p, value_weight(c, w), c.value_rows(), mixed));
  const std::int64_t width = w.wo.weight.shape[1];  // of all heads, also in a split
  const Tensor all =
      p.whole(z, width, {Parts::Of::heads, at}).reshaped({z.rows(), width / c.head_value_dim, c.head_value_dim});
  return p.tap(at(AttentionSite::attn_proj), p.whole(project_out(p, at, w.wo, all), in.normed.row_size()));
}

void check(std::string_view where, const Config& c) {
  check_size(where, "n_heads", c.n_heads);
  check_size(where, "kv_rank", c.rank);
  if (c.q_rank) check_size(where, "q_rank", *c.q_rank);
  check_size(where, "nope_dim", c.nope_dim);
  check_size(where, "value_dim", c.head_value_dim);
  check_size(where, "rope dim", c.rope.dim);
  if (c.rope.dim % 2 != 0) throw BadInput(where, "expected an even rope dim, got {}", c.rope.dim);
  check_number(where, "rope magnitude", c.rope.magnitude);
  check_number(where, "score_scale", c.score_scale);
  check_query_scale(where, c.query_scale);
  check_frequencies(where, c.rope.frequency);
  check_norm(where, "the norm of the latents", c.latent_norm);
  for (const std::int64_t size : {c.rank + c.rope.dim, c.query_dim() + c.head_value_dim}) {
    check_size(where, "n_heads × its elements", checked_mul(c.n_heads, size).value_or(-1));
  }
  if (c.n_kv_heads != 1 || c.head_dim != c.rank + c.rope.dim || c.value_dim != c.rank || c.softcap || c.alibi) {
    throw BadInput(where, "expected one K/V head of kv_rank + rope dim ({}) elements, got {} of {}",
                   c.rank + c.rope.dim, c.n_kv_heads, c.head_dim);
  }
}

void list_params(ParamList& list, const std::string& at, const Config& c, LatentAttentionParams& w, Widths d) {
  const std::int64_t n_query = c.n_heads * c.query_dim();
  if (c.q_rank) {
    list.linear(w.wq_a, at + ".wq_a", *c.q_rank, d.stream, c.down_bias);
    list.norm(w.q_norm, at + ".q_latent_norm", c.latent_norm, *c.q_rank);
    list.linear(w.wq_b, at + ".wq_b", n_query, *c.q_rank, false);
  } else {
    list.linear(w.wq, at + ".wq", n_query, d.stream, false);
  }
  list.linear(w.wkv_a, at + ".wkv_a", c.head_dim, d.stream, c.down_bias);
  list.norm(w.kv_norm, at + ".kv_latent_norm", c.latent_norm, c.rank);
  if (c.keys_apart) {
    list.linear(w.wk_b, at + ".wk_b", c.n_heads * c.rank, c.nope_dim, false);
    list.linear(w.wv_b, at + ".wv_b", c.n_heads * c.head_value_dim, c.rank, false);
  } else {
    list.linear(w.wkv_b, at + ".wkv_b", c.n_heads * (c.nope_dim + c.head_value_dim), c.rank, false);
  }
  list.linear(w.wo, at + ".wo", d.stream, c.n_heads * c.head_value_dim, c.out_bias);
}

namespace {

/// A tenth of YaRN's mscale_all_dim, which the scale of scores contains (to six digits); empty if it does not.
std::optional<double> yarn_log_multiplier(const Config& c) {
  const auto* const yarn = std::get_if<YarnScaling>(&c.rope.scaling);
  if (yarn == nullptr || yarn->factor <= 1) return {};
  const double square = static_cast<double>(c.score_scale) * std::sqrt(static_cast<double>(c.query_dim()));
  const double all_dim = (std::sqrt(square) - 1) / (0.1 * math::log(yarn->factor));
  const double rounded = std::round(all_dim * 1e5) / 1e5;
  return rounded > 0 ? std::optional(0.1 * rounded) : std::nullopt;
}

}  // namespace

CacheLayerConfig cache_layer(const Config& c) {
  return KvLayerConfig{.n_kv_heads = 1, .head_dim = c.head_dim, .value_dim = c.rank, .one_row = true};
}

std::optional<double> gguf_word(const Config& c, std::string_view word) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  if (word == "n_heads") return number(c.n_heads);
  if (word == "n_kv_heads") return number(c.n_kv_heads);
  if (word == "kv_rank" || word == "latent_length") return number(c.rank);
  if (word == "q_rank" && c.q_rank) return number(*c.q_rank);
  if (word == "rope_dim") return number(c.rope.dim);
  if (word == "row_length") return number(c.head_dim);
  if (word == "key_length") return number(c.query_dim());
  if (word == "value_length") return number(c.head_value_dim);
  if (word == "query_scale_beta" && c.query_scale) return c.query_scale->beta;
  if (word == "query_scale_interval" && c.query_scale) return number(c.query_scale->interval);
  if (word == "yarn_log_multiplier") return yarn_log_multiplier(c);
  return {};
}

void divide(WeightDivider& divider, Config& c, LatentAttentionParams& w) {
  const int n = divider.n_ranks(), r = divider.rank();
  if (n > c.n_heads) {
    throw BadInput("--split", "expected at most as many ranks as query heads ({}), got {}", c.n_heads, n);
  }
  const RowRange heads = heads_of_rank(c, n, r);
  const auto rows = [&](const HeadRows& of) { return RowRange{heads.first * of.step, heads.end * of.step}; };
  divider.keep_rows(c.q_rank ? w.wq_b : w.wq, {heads.first * c.query_dim(), heads.end * c.query_dim()});
  if (c.keys_apart) {
    divider.keep_rows(w.wk_b, rows(c.key_rows(true)));
    divider.keep_rows(w.wv_b, rows(c.value_rows()));
  } else {
    divider.keep_rows(w.wkv_b, rows(c.value_rows()));
  }
  divider.keep_part(w.wo);
  c.n_heads = heads.size();
}

}  // namespace vitrine
