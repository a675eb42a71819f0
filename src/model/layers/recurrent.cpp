#include "model/layers/recurrent.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "model/checks.h"
#include "ops/elementwise.h"
#include "ops/route.h"

namespace vitrine {
namespace {

using Bridge = RecurrentConfig::Bridge;

bool has_caches(const std::vector<Segment>& segments) {
  return std::any_of(segments.begin(), segments.end(), [](const Segment& s) { return s.cache != nullptr; });
}

/// The states of the sources `[n_sources, d_hidden]`, as the decoder begins with them.
Tensor bridged(Pass& p, Bridge bridge, const LinearParams& w, const Tensor& forward, const Tensor& reverse) {
  if (bridge == Bridge::copy) return forward;
  return tanh(p, linear(p, w, reverse.data != nullptr ? concat(p, forward, reverse) : forward));
}

/// The states of the segments before their first rows: row `source` of `of_sources`, if the pass has read the source;
/// else state `number` of the layer in the cache; else 0.
Tensor first_states(Pass& p, BlockSite at, const Tensor& of_sources, std::int64_t d, int number) {
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  if (!has_caches(segments)) {
    if (of_sources.data == nullptr) return {};
    std::vector<std::int64_t> rows;
    for (const Segment& s : segments) rows.push_back(s.source);
    return take_rows(p, of_sources, rows);
  }
  const Tensor first = p.filled({static_cast<std::int64_t>(segments.size()), d}, 0.0f);
  for (std::size_t i = 0; i < segments.size() && !p.shapes_only; ++i) {
    const Segment& s = segments[i];
    const float* from = nullptr;
    if (s.position > 0) {
      from = s.cache->state<float>(at.layer, number).data();
    } else if (of_sources.data != nullptr && s.source >= 0) {
      from = of_sources.row(s.source);
    }
    if (from != nullptr) std::copy_n(from, d, first.row(static_cast<std::int64_t>(i)));
  }
  return first;
}

CellStates first_states(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w,
                        const LayerStates* source) {
  Tensor h, cell;
  if (source != nullptr) {
    h = bridged(p, *c.bridge, w.bridge, source->forward.h, source->reverse.h);
    if (c.has_c()) cell = bridged(p, *c.bridge, w.bridge_c, source->forward.c, source->reverse.c);
  }
  CellStates first{first_states(p, at, h, c.d_hidden, 0), {}};
  if (c.has_c()) first.c = first_states(p, at, cell, c.d_hidden, 1);
  return first;
}

/// The attention of a decoder's first layer. The keys and values of this pass are appended to the caches of sources.
std::shared_ptr<AdditiveAttention> make_attention(Pass& p, BlockSite at, const RecurrentParams& w,
                                                  const Tensor& encoded) {
  Tensor keys, values;
  if (encoded.data != nullptr) {
    const Tensor projected = linear(p, w.attention.key, encoded);
    keys = projected.reshaped({encoded.rows(), 1, projected.row_size()});
    values = encoded.reshaped({encoded.rows(), 1, encoded.row_size()});
  }
  const std::vector<KeySource> sources = key_sources(p, at, keys, values);
  append(p, at, sources);
  return std::make_shared<AdditiveAttention>(p, at, w.attention, keys, values, sources);
}

CellStates make_cell_states(Pass& p, std::int64_t n, const RecurrentConfig& c) {
  const auto make = [&] {
    const Tensor state = p.tensor({n, c.d_hidden});
    if (p.is_taped()) p.training.tape->record("state", {}, state, [] {});  // its gradient is read by the scan
    return state;
  };
  CellStates states;
  states.h = make();
  if (c.has_c()) states.c = make();
  return states;
}

/// Keeps the last states of the segments that have a cache.
void keep(const Pass& p, BlockSite at, const CellStates& last, const std::vector<Segment>& segments) {
  for (std::size_t i = 0; i < segments.size() && !p.shapes_only; ++i) {
    if (segments[i].cache == nullptr) continue;
    KvCache& cache = *segments[i].cache;
    const auto row = static_cast<std::int64_t>(i);
    std::copy_n(last.h.row(row), last.h.row_size(), cache.next_state<float>(at.layer, 0).begin());
    if (last.c.data == nullptr) continue;
    std::copy_n(last.c.row(row), last.c.row_size(), cache.next_state<float>(at.layer, 1).begin());
  }
}

/// Names and shapes are those of torch.nn's modules.
void list_cell(ParamList& list, const CellConfig& c, CellParams& w, const std::string& prefix,
               const std::string& suffix, std::int64_t d_in) {
  const std::int64_t rows = c.n_gates() * c.d_hidden;
  list.add(w.input.weight, prefix + "weight_ih_" + suffix, Shape{rows, d_in});
  list.add(w.state.weight, prefix + "weight_hh_" + suffix, Shape{rows, c.d_hidden});
  list.add(w.input.bias, prefix + "bias_ih_" + suffix, Shape{rows});
  list.add(w.state.bias, prefix + "bias_hh_" + suffix, Shape{rows});
}

}  // namespace

void check(std::string_view where, const RecurrentConfig& c, const LayerPlace& place) {
  check_size(where, "d_hidden", c.d_hidden);
  if (c.d_attention) check_size(where, "d_attention", *c.d_attention);
  if (c.d_attention && (place.layer > 0 || place.d_source == 0)) {
    throw BadInput(where, "additive attention belongs to the first layer of a decoder that has an encoder");
  }
  if (c.bridge && place.d_source == 0) throw BadInput(where, "a bridge requires an encoder");
}

void list_params(ParamList& list, const RecurrentConfig& c, RecurrentParams& w, const LayerPlace& place) {
  const std::string layer = std::to_string(place.layer);
  std::int64_t d_in = place.d_in;
  if (c.d_attention) {
    d_in += place.d_source;
    list.linear(w.attention.query, place.prefix + "attn.query", *c.d_attention, c.d_hidden, false);
    list.linear(w.attention.key, place.prefix + "attn.key", *c.d_attention, place.d_source, false);
    list.linear(w.attention.v, place.prefix + "attn.v", 1, *c.d_attention, false);
  }
  if (c.bridge == RecurrentConfig::Bridge::linear) {
    list.linear(w.bridge, place.prefix + "bridge." + layer, c.d_hidden, place.d_states, true);
    if (c.has_c()) list.linear(w.bridge_c, place.prefix + "bridge_c." + layer, c.d_hidden, place.d_states, true);
  }
  list_cell(list, c, w.forward, place.prefix + "rnn.", "l" + layer, d_in);
  if (c.bidirectional) list_cell(list, c, w.reverse, place.prefix + "rnn.", "l" + layer + "_reverse", d_in);
}

CacheLayerConfig cache_layer(const RecurrentConfig& c) {
  std::vector<StateConfig> states = {{"h", {c.d_hidden}}};
  if (c.has_c()) states.push_back({"c", {c.d_hidden}});
  return states;
}

LayerStates make_states(Pass& p, Stack stack, const RecurrentConfig& c) {
  const auto n = static_cast<std::int64_t>(p.segments_of(stack).size());
  LayerStates states{make_cell_states(p, n, c), {}};
  if (c.bidirectional) states.reverse = make_cell_states(p, n, c);
  return states;
}

Tensor forward(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w, const LayerContext& context,
               const Tensor& x) {
  const auto layer = static_cast<std::size_t>(at.layer);
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  const bool is_bridged = c.bridge && context.source_states != nullptr;
  const CellStates first = first_states(p, at, c, w, is_bridged ? &(*context.source_states)[layer] : nullptr);
  std::shared_ptr<AdditiveAttention> attention;
  if (c.d_attention) attention = make_attention(p, at.of_cross(), w, context.encoded);
  const LayerStates own = context.last_states != nullptr ? (*context.last_states)[layer] : LayerStates();
  CellStates last = own.forward;
  if (has_caches(segments)) {
    last.h = p.tensor({static_cast<std::int64_t>(segments.size()), c.d_hidden});
    if (c.has_c()) last.c = p.tensor(last.h.shape);
  }
  const Tensor inputs = linear_part(p, w.forward.input, x, 0);
  const Tensor h = scan(p, at, Direction::forward, c, w.forward, inputs, first, last, std::move(attention));
  keep(p, at, last, segments);
  if (!c.bidirectional) return h;
  const Tensor reversed = linear(p, w.reverse.input, x);
  return concat(p, h, scan(p, at, Direction::reverse, c, w.reverse, reversed, {}, own.reverse, nullptr));
}

}  // namespace vitrine
