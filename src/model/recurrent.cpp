#include "model/recurrent.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/additive.h"
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
                        const RecurrentContext& context) {
  Tensor h, cell;
  if (c.bridge && context.source != nullptr) {
    const CellStates &forward = context.source->forward, &reverse = context.source->reverse;
    h = bridged(p, *c.bridge, w.bridge, forward.h, reverse.h);
    if (c.has_c()) cell = bridged(p, *c.bridge, w.bridge_c, forward.c, reverse.c);
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

}  // namespace

SharedStates make_states(Pass& p, Stack stack, const StackConfig& c) {
  const auto n = static_cast<std::int64_t>(p.segments_of(stack).size());
  std::vector<LayerStates> states;
  for (const BlockConfig& block : c.blocks) {
    const RecurrentConfig* const recurrent = block.recurrent();
    if (recurrent == nullptr) return nullptr;
    LayerStates of_layer{make_cell_states(p, n, *recurrent), {}};
    if (recurrent->bidirectional) of_layer.reverse = make_cell_states(p, n, *recurrent);
    states.push_back(of_layer);
  }
  return std::make_shared<const std::vector<LayerStates>>(std::move(states));
}

Tensor recurrent_layer(Pass& p, BlockSite at, const RecurrentConfig& c, const RecurrentParams& w,
                       const RecurrentContext& context, const Tensor& x) {
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  const CellStates first = first_states(p, at, c, w, context);
  std::shared_ptr<AdditiveAttention> attention;
  if (c.d_attention) attention = make_attention(p, at.of_cross(), w, context.encoded);
  CellStates last = context.last.forward;
  if (has_caches(segments)) {
    last.h = p.tensor({static_cast<std::int64_t>(segments.size()), c.d_hidden});
    if (c.has_c()) last.c = p.tensor(last.h.shape);
  }
  const Tensor inputs = linear_part(p, w.forward.input, x, 0);
  const Tensor h = scan(p, at, Direction::forward, c, w.forward, inputs, first, last, std::move(attention));
  keep(p, at, last, segments);
  if (!c.bidirectional) return h;
  const Tensor reversed = linear(p, w.reverse.input, x);
  return concat(p, h, scan(p, at, Direction::reverse, c, w.reverse, reversed, {}, context.last.reverse, nullptr));
}

}  // namespace vitrine
