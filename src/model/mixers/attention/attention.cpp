#include "model/mixers/attention/attention.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "base/exchanged.h"
#include "model/checks.h"
#include "model/mixers/attention/head_inputs.h"
#include "ops/attention_sites.h"
#include "ops/elementwise.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

using Parts = ModelSplit::Parts;

/// q or k `[T, n, head_dim]`, normalized over each head or over all heads as one vector. `parts`: those of a split.
Tensor norm_heads(Pass& p, const NormSite& at, const std::optional<QkNormConfig>& c, const NormParams& w,
                  const Tensor& x, const Parts& parts) {
  if (!c) return x;
  if (c->over != QkNormConfig::Over::all_heads) return norm(p, at, c->norm, w, x);
  const Tensor all = p.whole(x, w.weight.shape[0], parts);
  const Tensor y = norm(p, at, c->norm, w, all.reshaped({all.rows(), 1, all.row_size()}));
  return p.part(y, x.row_size(), parts).reshaped(x.shape);
}

/// q, k or v `[T, n, head_dim]` of `shape`, before its site.
Tensor project(Pass& p, BlockSite at, const AttentionConfig& c, Site added, const LinearParams& w, const Tensor& rows,
               const SublayerInput& x, const HeadCopies& own, const Shape& shape) {
  const Tensor projected = project_heads(p, at, added, w, rows, x, own, shape);
  return c.qkv_clip ? clamp(p, *c.qkv_clip, projected) : projected;
}

/// A layer's own keys and values, before their norms and RoPE; no data if the caches of the sources have them.
KeyValueRows project_keys_and_values(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w,
                                     const SublayerInput& x) {
  const Tensor& rows = at.cross ? x.encoded : x.normed;
  if (rows.data == nullptr) return {};
  const Shape shape{rows.rows(), c.n_kv_heads, c.head_dim}, v_shape{rows.rows(), c.n_kv_heads, c.width_of_values()};
  const Exchanged<RowsOfValue> of_rows(p.rows, {at.cross ? Stack::encoder : at.stack});
  const Tensor keys = project(p, at, c, AttentionSite::lora_k, w.wk, rows, x, x.k, shape);
  const Tensor k = p.tap(at(AttentionSite::k), scale(p, c.key_scale, keys));
  const Tensor v =
      c.values_are_keys ? copy(p, keys) : project(p, at, c, AttentionSite::lora_v, w.wv, rows, x, x.v, v_shape);
  return {k, p.tap(at(AttentionSite::v), scale(p, c.value_scale, v))};
}

/// The keys and values of an earlier layer. Taps replace them for this layer alone, which has no cache for others.
KeyValueRows show_given(Pass& p, BlockSite at, const KeyValueRows& given) {
  const auto show = [&](Site site, const Tensor& x) {
    const SiteId id = at(site);
    const Tensor own = p.is_taped() && p.wants(id) ? row_range(p, x, 0, x.rows()) : x;
    const Tensor shown = p.tap(id, own);
    const bool is_cached = std::any_of(p.segments.begin(), p.segments.end(), [](const Segment& s) { return s.cache; });
    const bool is_changed = shown.data != own.data && !std::equal(own.data, own.data + own.count(), shown.data);
    if (is_cached && is_changed) {
      throw Unsupported(name_of(id),
                        "the cache has the keys and values of the layer that this one reads: a change here "
                        "lasts for one pass only, so it needs a pass without a cache");
    }
    return shown;
  };
  const Tensor k = show(AttentionSite::k, given.k);
  return {k, show(AttentionSite::v, given.v)};
}

/// Copies the keys and values for later layers. The gradients of these layers come back by the copy.
void keep(Pass& p, const KeyValueRows& own, const KeyValueRows& kept) {
  const auto keep_rows = [&](const Tensor& from, const Tensor& to) {
    p.copy(from.data, from.count(), to.data);
    p.record(OpKind::keep, {from}, to, [&p, from, to] { accumulate(p, p.grad(to), p.grad(from)); });
  };
  keep_rows(own.k, kept.k);
  keep_rows(own.v, kept.v);
}

/// The rows of the table of positions belong to no text, so they have no adapters.
void refuse_adapters(Pass& p, Stack stack, std::initializer_list<std::string_view> weights) {
  for (const Segment& s : p.segments_of(stack)) {
    for (const AppliedAdapter& applied : s.modifiers.adapters) {
      for (const std::string_view weight : weights) {
        if (applied.adapter->find(weight) == nullptr) continue;
        throw Unsupported("adapter", "{} also projects positions in this model: adapters cannot change it", weight);
      }
    }
  }
}

/// The scores by relative position of queries and keys, if the layer has them.
RelativeScores relative_scores(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w,
                               const SublayerInput& x, const Tensor& bias, const Tensor& q, const Tensor& k) {
  RelativeScores relative{bias};
  if (!c.position_terms) return relative;
  const PositionTermsConfig& terms = *c.position_terms;
  if (terms.shares) refuse_adapters(p, at.stack, {w.wq.weight.name, w.wk.weight.name});
  const auto products = [&](const LinearParams& own, const LinearParams& shared, const Tensor& rows) {
    const Tensor projected = linear_part(p, terms.shares ? shared : own, x.positions.rows, 0);
    return position_products(p, rows, projected, c.score_scale);
  };
  relative.row_of_distance = x.positions.of_distance;
  if (terms.of_queries) {
    relative.of_queries = p.tap(at(AttentionSite::rel_pos_q), products(w.w_pos_k, w.wk, q));
  }
  if (terms.of_keys) relative.of_keys = p.tap(at(AttentionSite::rel_pos_k), products(w.w_pos_q, w.wq, k));
  return relative;
}

/// `bias`: the relative bias of the stack; no data without one.
Tensor attention(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const SublayerInput& x,
                 const Tensor& bias) {
  static const NormParams kNoWeight{};
  const Shape q_shape{x.normed.rows(), c.n_heads, c.head_dim};
  Tensor q = p.tap(at(AttentionSite::q), project(p, at, c, AttentionSite::lora_q, w.wq, x.normed, x, x.q, q_shape));
  auto [k, v] = c.kv_layer ? KeyValueRows() : project_keys_and_values(p, at, c, w, x);
  const Parts heads{Parts::Of::heads, at}, kv_heads{Parts::Of::kv_heads, at};
  const auto norm_both = [&](const Tensor& keys) {
    q = norm_heads(p, at(kQNorm), c.qk_norm, w.q_norm, q, heads);
    return keys.data != nullptr ? norm_heads(p, at(kKNorm), c.qk_norm, w.k_norm, keys, kv_heads) : keys;
  };
  const bool norms_last = c.qk_norm && c.qk_norm->after_rope;
  if (!norms_last) k = norm_both(k);
  if (v.data != nullptr) v = norm(p, at(kVNorm), c.v_norm, kNoWeight, v);
  if (c.rope) {
    const Rotations& by = x.rope->of(*c.rope);
    q = p.tap(at(AttentionSite::rot_q), rope(p, *c.rope, by, q));
    if (!c.kv_layer) k = p.tap(at(AttentionSite::rot_k), rope(p, *c.rope, by, k));
  }
  if (norms_last) k = norm_both(k);
  if (c.query_scale) q = scale_queries(p, at, *c.query_scale, q);
  const auto shared = [&](std::int64_t layer) { return x.shared[static_cast<std::size_t>(layer)]; };
  const KeyValueRows read = c.kv_layer ? show_given(p, at, shared(*c.kv_layer)) : KeyValueRows{k, v};
  if (!x.shared.empty() && shared(at.layer).k.data != nullptr) keep(p, read, shared(at.layer));
  const std::vector<KeySource> sources = key_sources(p, at, read.k, read.v, c.kv_layer);
  const auto append_own = [&] {
    if (!c.kv_layer) append(p, at, sources);
  };
  if (p.ends_before(at(AttentionSite::scores_raw))) {
    append_own();
    return {};
  }
  const Param* const sinks = c.sink ? &w.sinks : nullptr;
  const RelativeScores relative = relative_scores(p, at, c, w, x, bias, q, read.k);
  Tensor z = p.tap(at(AttentionSite::z), attend(p, at, c, c.mask(), q, read.k, read.v, sources, relative, sinks));
  append_own();
  if (c.out_gate) {
    const Tensor gate = sigmoid(p, linear(p, w.w_gate, x.normed)).reshaped(z.shape);
    z = hadamard(p, z, p.tap(at(AttentionSite::gate), gate));
  }
  const std::int64_t width = w.wo.weight.shape[1];  // of all heads, also in a split
  const Tensor all = p.whole(z, width, heads).reshaped({z.rows(), width / c.width_of_values(), c.width_of_values()});
  const Tensor out = project_out(p, at, w.wo, all);
  return p.tap(at(AttentionSite::attn_proj), p.whole(out, x.normed.row_size()));
}

/// Elements of a vector over all heads, or of one for each.
std::int64_t width_of(const QkNormConfig& c, std::int64_t n_heads, std::int64_t head_dim) {
  return c.over == QkNormConfig::Over::head ? head_dim : n_heads * head_dim;
}

/// Queries and outputs have rows of `d` elements, keys and values are computed from rows of `d_keys`.
void list_attention(ParamList& list, const std::string& at, const AttentionConfig& c, AttentionParams& w,
                    std::int64_t d, std::int64_t d_keys) {
  const std::int64_t d_z = c.n_heads * c.width_of_values();
  list.linear(w.wq, at + ".wq", c.n_heads * c.head_dim, d, c.qkv_bias);
  const bool has_keys = !c.kv_layer;
  if (has_keys) list.linear(w.wk, at + ".wk", c.n_kv_heads * c.head_dim, d_keys, c.qkv_bias);
  if (has_keys && !c.values_are_keys) {
    list.linear(w.wv, at + ".wv", c.n_kv_heads * c.width_of_values(), d_keys, c.qkv_bias);
  }
  if (const auto& qk = c.qk_norm) {
    list.norm(w.q_norm, at + ".q_norm", qk->norm, width_of(*qk, c.n_heads, c.head_dim));
    if (has_keys) list.norm(w.k_norm, at + ".k_norm", qk->norm, width_of(*qk, c.n_kv_heads, c.head_dim));
  }
  if (c.sink) list.add(w.sinks, at + ".sinks.weight", Shape{c.n_heads});
  if (c.out_gate) list.linear(w.w_gate, at + ".w_gate", d_z, d, c.gate_bias);
  if (c.position_terms && !c.position_terms->shares) {
    const std::int64_t width = c.n_heads * c.head_dim;
    if (c.position_terms->of_queries) list.linear(w.w_pos_k, at + ".w_pos_k", width, d, true);
    if (c.position_terms->of_keys) list.linear(w.w_pos_q, at + ".w_pos_q", width, d, true);
  }
  list.linear(w.wo, at + ".wo", d, d_z, c.out_bias);
}

}  // namespace

void check(std::string_view where, const AttentionConfig& c) {
  check_size(where, "n_heads", c.n_heads);
  check_size(where, "n_kv_heads", c.n_kv_heads);
  check_size(where, "head_dim", c.head_dim);
  if (c.n_heads % c.n_kv_heads != 0) {
    throw BadInput(where, "expected n_heads to be a multiple of n_kv_heads ({}), got {}", c.n_kv_heads, c.n_heads);
  }
  check_size(where, "n_heads × head_dim", checked_mul(c.n_heads, c.head_dim).value_or(-1));
  if (c.value_dim) check_size(where, "value_dim", *c.value_dim);
  check_size(where, "n_heads × value_dim", checked_mul(c.n_heads, c.width_of_values()).value_or(-1));
  check_number(where, "key_scale", c.key_scale);
  check_number(where, "value_scale", c.value_scale);
  check_number(where, "score_scale", c.score_scale);
  if (c.softcap) check_number(where, "softcap", *c.softcap);
  if (c.window) check_size(where, "window", *c.window);
  if (c.qkv_clip) check_number(where, "qkv_clip", *c.qkv_clip);
  if (c.chunked && (!c.window || c.bidirectional)) {
    throw BadInput(where, "chunked: expected a window, and attention to earlier tokens only");
  }
  check_query_scale(where, c.query_scale);
  if (c.position_terms && (!c.bidirectional || c.n_kv_heads != c.n_heads || c.kv_layer)) {
    throw BadInput(where,
                   "scores by relative position need a bidirectional layer with as many heads of keys as of queries");
  }
  if (c.alibi && static_cast<std::int64_t>(c.alibi->slopes.size()) != c.n_heads) {
    throw BadInput(where, "expected an ALiBi slope for each of {} heads, got {}", c.n_heads, c.alibi->slopes.size());
  }
  if (c.alibi) check_number(where, "alibi max_bias", c.alibi->max_bias);
  if (c.rope) {
    check_size(where, "rope dim", c.rope->dim, c.head_dim);
    if (c.rope->dim % 2 != 0) throw BadInput(where, "expected an even rope dim, got {}", c.rope->dim);
    check_number(where, "rope magnitude", c.rope->magnitude);
    check_frequencies(where, c.rope->frequency);
    if (depends_on_length(c.rope->scaling)) {
      check_frequencies(where, rope_frequency(c.rope->theta, c.rope->dim, c.rope->scaling, kMaxSize));
    }
  }
  if (c.qk_norm) check_norm(where, "qk_norm", c.qk_norm->norm);
  if (c.qk_norm && !c.qk_norm->norm.weight && c.qk_norm->over != QkNormConfig::Over::head) {
    throw BadInput(where, "expected a qk_norm without weight to be over each head");
  }
  check_norm(where, "v_norm", c.v_norm);
  if (c.v_norm && c.v_norm->weight) throw BadInput(where, "expected a v_norm without weight");
  if (c.values_are_keys && c.width_of_values() != c.head_dim) {
    throw BadInput(where, "values_are_keys: expected value_dim to be head_dim ({}), got {}", c.head_dim,
                   c.width_of_values());
  }
}

void check(std::string_view where, const CrossAttentionConfig& c) {
  check(where, static_cast<const AttentionConfig&>(c));
  if (c.rope || c.alibi || !c.bidirectional || c.window || c.query_scale) {
    throw BadInput(where,
                   "cross-attention has neither RoPE nor ALiBi nor a window nor a scale of the queries, and attends to "
                   "all positions");
  }
  if (c.kv_layer) throw BadInput(where, "cross-attention has keys and values of its own");
}

void list_params(ParamList& list, const std::string& at, const AttentionConfig& c, AttentionParams& w, Widths d) {
  list_attention(list, at, c, w, d.stream, d.stream);
}

void list_params(ParamList& list, const std::string& at, const CrossAttentionConfig& c, CrossAttentionParams& w,
                 Widths d) {
  list_attention(list, at, c, w, d.stream, d.source);
}

CacheLayerConfig cache_layer(const AttentionConfig& c) {
  if (c.kv_layer) return {};
  return KvLayerConfig{c.n_kv_heads, c.head_dim, c.window, c.value_dim, c.chunked};
}

CacheLayerConfig cache_layer(const CrossAttentionConfig& c) {
  return KvLayerConfig{c.n_kv_heads, c.head_dim, {}, c.value_dim};
}

void tap_input(Pass& p, BlockSite at, const CrossAttentionConfig&, SublayerInput& in) {
  tap_stream(p, at(AttentionSite::cross_attn_in), in);
}

Tensor forward(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const SublayerInput& in) {
  return attention(p, at, c, w, in, in.bias);
}

Tensor forward(Pass& p, BlockSite at, const CrossAttentionConfig& c, const CrossAttentionParams& w,
               const SublayerInput& in) {
  return attention(p, at, c, w, in, {});
}

std::optional<double> gguf_word(const AttentionConfig& c, std::string_view word) {
  if (word == "n_heads") return static_cast<double>(c.n_heads);
  if (word == "n_kv_heads") return static_cast<double>(c.n_kv_heads);
  if (word == "value_dim" || word == "v_head_dim") return static_cast<double>(c.width_of_values());
  if (word == "head_dim") return static_cast<double>(c.head_dim);
  if (word == "attention_value_scale") return c.value_scale;
  if (word == "attn_logit_softcapping" && c.softcap) return *c.softcap;
  if (word == "attention_multiplier") return c.score_scale;
  if (word == "query_scale_beta" && c.query_scale) return c.query_scale->beta;
  if (word == "clip_qkv" && c.qkv_clip) return *c.qkv_clip;
  if (word == "alibi_bias_max" && c.alibi) return c.alibi->max_bias;
  return {};
}

std::optional<double> gguf_word(const CrossAttentionConfig&, std::string_view) { return {}; }

}  // namespace vitrine
