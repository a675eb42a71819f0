#include "ops/attend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/attend_backward.h"
#include "ops/attention_sites.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

using Step = void (SegmentAttention::*)(const Tile&) const;

/// Untapped segments: each tile goes through all four steps while it is in cache. The tiles of all segments are divided
/// among lists, which the threads take.
void run_tiles(Pass& p, std::int64_t wide, const Segments& segments) {
  constexpr std::int64_t kListsPerThread = 16;
  std::int64_t operations = 0, n_rows = 0, positions = 0;
  for (const SegmentAttention& s : segments) {
    operations += s.operations();
    n_rows += s.n_rows();
    positions = std::max(positions, s.n_positions());
  }
  const std::int64_t n_worth = std::max<std::int64_t>(operations / ExecutionContext::kOperationsPerThread, 1);
  const std::int64_t n_threads = std::min<std::int64_t>(n_worth, p.pool.size());
  const std::int64_t n_lists = std::min<std::int64_t>(n_worth, n_threads == 1 ? 1 : n_threads * kListsPerThread);
  const std::int64_t rows = std::clamp<std::int64_t>(n_rows / n_threads, 1, Tile::kMaxRows);

  const ArenaScope scope(p.arena);
  const Tensor queries = p.tensor({p.pool.size(), rows, wide});
  const Tensor strips = p.tensor({p.pool.size(), rows, positions});
  const Tensor factors = p.tensor({p.pool.size(), positions});
  p.parallel_for(n_lists, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    Tile tile{queries.row(thread), strips.row(thread), p.scratch(thread)};
    for (std::int64_t list = begin; list < end; ++list) {
      std::int64_t i = list;  // tiles are interleaved, because later ones have more keys
      for (const SegmentAttention& s : segments) {
        const std::int64_t n_tiles = s.n_tiles(rows);
        for (; i < n_tiles; i += n_lists) {
          p.check_interrupt();
          s.place(i, rows, tile);
          s.score(tile);
          s.cap_and_mask(tile);
          s.softmax(tile);
          if (p.training.dropout.rate > 0) s.drop(tile, factors.row(thread));
          s.mix(tile);
        }
        i -= n_tiles;
      }
    }
  });
}

// Tapped segments: all strips are stored in `[H, T, S]`, and each step runs over all of them before the next. With a
// tape each step is an op of its own.

void for_each_strip(Pass& p, const SegmentAttention& s, const Tensor& strips, Step step) {
  const ArenaScope scope(p.arena);
  const Tensor queries = p.tensor({p.pool.size(), s.wide()});
  p.parallel_for(s.n_rows(), ExecutionContext::kOperationsPerThread / (s.operations() / s.n_rows() + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     p.check_interrupt();
                     float* const strip = strips.data + s.strip_offset(row);
                     Tile tile{queries.row(thread), strip, p.scratch(thread)};
                     s.place_strip(row, tile);
                     (s.*step)(tile);
                   }
                 });
}

/// Calls body(tile, gradient, offset) for all strips: a tile of one strip, a copy of its gradient, and its offset.
template <class Body>
void for_each_strip_backward(Pass& p, const AttendConfig& c, const SegmentAttention& s, const Tensor& strips,
                             const Tensor& dstrips, Body&& body) {
  const ArenaScope scope(p.arena);
  const BackwardScratch scratch(p, s.wide(), 1, s.n_positions());
  for_kv_heads(p, c, {s}, [&](const SegmentAttention&, std::int64_t kv_head, int worker) {
    const std::int64_t n = s.n_rows() / c.n_kv_heads;
    for (std::int64_t row = kv_head * n; row < (kv_head + 1) * n; ++row) {
      const std::int64_t at = s.strip_offset(row);
      Tile tile = scratch.tile(worker);
      s.place_strip(row, tile);
      tile.strips = strips.data + at;
      const GradientTile d = scratch.gradient(worker);
      if (dstrips.data != nullptr) std::copy_n(dstrips.data + at, s.n_positions(), d.strips);
      body(tile, d, at);
    }
  });
}

Tensor score(Pass& p, const AttendConfig& c, const SegmentAttention& s, const Tensor& q, const Tensor& k) {
  const Tensor strips = p.tensor({c.n_heads, s.n_rows() / c.n_heads, s.n_positions()});
  for_each_strip(p, s, strips, &SegmentAttention::score);
  p.record({OpKind::attend_score, &c}, {q, k}, strips, [&p, &c, s, q, k, strips] {
    const Tensor dq = p.grad(q), dk = p.grad(k);
    for_each_strip_backward(
        p, c, s, strips, p.grad(strips),
        [&](const Tile& tile, const GradientTile& d, std::int64_t) { s.score_backward(tile, d, dq, dk); });
  });
  return strips;
}

/// Applies one step to `tapped`, the value that the taps returned for `strips`: in place, unless there is a tape or a
/// tap has replaced the strips.
template <class Backward>
Tensor strip_step(Pass& p, const AttendConfig& c, const SegmentAttention& s, OpKind kind, Step step, Tensor strips,
                  const Tensor& tapped, const RelativeScores& relative, const Param* sinks, Backward backward) {
  if (p.is_taped() || tapped.data != strips.data) {
    strips = p.tensor(tapped.shape);
    p.copy(tapped.data, tapped.count(), strips.data);
  }
  for_each_strip(p, s, strips, step);
  std::vector<Tensor> inputs = {tapped};
  relative.add_to(inputs);
  p.record({kind, &c}, inputs, strips, [&p, &c, s, tapped, strips, relative, sinks, backward] {
    const ArenaScope scope(p.arena);
    const Segment& rows = s.segment();
    const Tensor dtapped = p.grad(tapped), dbias = zero_biases(p, relative.bias, 1);
    const Tensor dsinks = sinks_by_row(p, sinks, rows.first_row + rows.length);
    const RowGradients drows(p, relative);
    for_each_strip_backward(p, c, s, strips, p.grad(strips), [&](const Tile& tile, GradientTile d, std::int64_t at) {
      d.bias = part_of(dbias, 0);
      d.of_queries = drows.of_queries, d.of_keys = drows.of_keys;
      d.sinks = dsinks;
      backward(s, tile, d);
      p.kernels.add(dtapped.data + at, d.strips, s.n_positions(), dtapped.data + at);
    });
    add_biases(p, dbias, relative.bias);
    if (sinks != nullptr) add_bias_gradient(p, dsinks.row_range(rows.first_row, rows.length), *sinks);
  });
  return strips;
}

/// A tapped segment, between two steps.
struct TappedSegment {
  int number;  // in the pass
  SegmentAttention attention;
  Tensor strips{};  // what the last step has computed
  Tensor tapped{};  // what the taps made of it
};

/// Shows the strips of all segments to the taps: one segment after another, or joined.
void tap_strips(Pass& p, BlockSite at, Site site, std::vector<TappedSegment>& segments) {
  const bool joins = p.taps != nullptr && p.taps->joins_segments() && p.wants(at(site));
  if (!joins) {
    for (TappedSegment& s : segments) s.tapped = p.tap(at(site, s.number), s.strips);
    return;
  }
  std::vector<Tensor> parts;
  for (const TappedSegment& s : segments) parts.push_back(s.strips);
  const Tensor joined = stack(p, parts), seen = p.tap(at(site), joined);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    TappedSegment& s = segments[i];
    const bool is_same = seen.data == joined.data && !p.is_taped();
    s.tapped = is_same ? s.strips : row_range(p, seen, static_cast<std::int64_t>(i), 1).reshaped(s.strips.shape);
  }
}

/// Computes z of tapped segments. Returns their patterns.
std::vector<Tensor> run_step_by_step(Pass& p, BlockSite at, const AttendConfig& c, std::vector<TappedSegment> segments,
                                     const Tensor& q, const Tensor& k, const RelativeScores& relative,
                                     const Param* sinks) {
  const auto cap_backward = [](const SegmentAttention& of, const Tile& tile, const GradientTile& d) {
    of.cap_backward(tile, tile.strips, d);
  };
  const auto softmax_backward = [](const SegmentAttention& of, const Tile& tile, const GradientTile& d) {
    of.softmax_backward(tile, d);
  };
  for (TappedSegment& s : segments) s.strips = score(p, c, s.attention, q, k);
  tap_strips(p, at, AttentionSite::scores_raw, segments);
  for (TappedSegment& s : segments) {
    s.strips = strip_step(p, c, s.attention, OpKind::attend_mask, &SegmentAttention::cap_and_mask, s.strips, s.tapped,
                          relative, nullptr, cap_backward);
  }
  tap_strips(p, at, AttentionSite::scores, segments);
  for (TappedSegment& s : segments) {
    s.strips = strip_step(p, c, s.attention, OpKind::attend_softmax, &SegmentAttention::softmax, s.strips, s.tapped, {},
                          sinks, softmax_backward);
    if (sinks != nullptr && p.ledger != nullptr) p.ledger->charge({.weights = static_cast<double>(c.n_heads)});
    s.strips = dropout(p, at(AttentionSite::pattern, s.number), s.strips);
  }
  tap_strips(p, at, AttentionSite::pattern, segments);
  std::vector<Tensor> patterns;
  for (const TappedSegment& s : segments) {
    for_each_strip(p, s.attention, s.tapped, &SegmentAttention::mix);
    patterns.push_back(s.tapped);
  }
  return patterns;
}

bool is_tapped(const Pass& p, BlockSite at, int segment) {
  const auto wants = [&](Site site) { return p.wants(at(site, segment)); };
  return wants(AttentionSite::scores_raw) || wants(AttentionSite::scores) || wants(AttentionSite::pattern);
}

/// Untapped attention as one op of the tape.
void record_tiles(Pass& p, const AttendConfig& c, const Segments& segments, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& z, const RelativeScores& relative, const Param* sinks) {
  std::vector<Tensor> inputs = {q, k, v};
  relative.add_to(inputs);
  p.training.tape->record("attend", inputs, z, [&p, &c, segments, q, k, v, z, relative, sinks] {
    if (p.training.linearizes) return run_values_backward(p, c, segments, p.grad(z), p.grad(v));
    run_tiles_backward(p, c, segments, p.grad(z), p.grad(q), p.grad(k), p.grad(v), relative, sinks);
  });
}

/// Enters the two products in the ledger. They are charged for the whole rectangle of queries and the keys that are
/// visible to any of these queries.
void enter_products(Pass& p, BlockSite at, const AttendConfig& c, const Mask& mask, const Tensor& q, const Tensor& z,
                    const std::vector<KeySource>& sources) {
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  OpCost scores, mix;
  const auto heads = static_cast<double>(c.n_heads);
  const double key = heads * static_cast<double>(c.head_dim), value = heads * static_cast<double>(z.shape[2]);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Segment& s = segments[i];
    const std::int64_t end = sources[i].n_positions(), first = mask.visible(s.position, end).begin;
    const auto n_keys = static_cast<double>(mask.visible(s.position + s.length - 1, end).end - first);
    const auto rows = static_cast<double>(s.length);
    const double n_stored = (n_keys + rows) * static_cast<double>(c.n_kv_heads);
    const double pairs = rows * n_keys, visible = mask.count_visible(s.position, s.length, end);
    scores.flops += 2 * key * pairs, mix.flops += 2 * value * pairs;
    scores.visible_flops += 2 * key * visible, mix.visible_flops += 2 * value * visible;
    scores.maps += heads * pairs;
    scores.kv_bytes += n_stored * static_cast<double>(kv_row_bytes(sources[i].keys.type, c.head_dim));
    if (sources[i].value_in_key) continue;  // its row is counted
    mix.kv_bytes += n_stored * static_cast<double>(kv_row_bytes(sources[i].values.type, z.shape[2]));
  }
  if (c.sink) scores.weights = static_cast<double>(c.n_heads);
  mix.maps = scores.maps;
  const auto n_sequences = static_cast<std::int64_t>(sources.size());
  const std::int64_t n = segments[0].length, n_keys = sources[0].n_positions();
  const Shape queries{n_sequences, c.n_heads, n, c.head_dim}, keys{n_sequences, c.n_kv_heads, c.head_dim, n_keys};
  const Shape pattern{n_sequences, c.n_heads, n, n_keys}, values{n_sequences, c.n_kv_heads, n_keys, z.shape[2]};
  p.ledger->enter(OpKind::scores, {&q, 1}, {});
  p.ledger->name(at.cross ? "cross_attn.scores" : "attn.scores", to_string(queries) + " × " + to_string(keys));
  p.ledger->charge(scores);
  p.ledger->enter(OpKind::mix, {}, z);
  p.ledger->name(at.cross ? "cross_attn.mix" : "attn.mix", to_string(pattern) + " × " + to_string(values));
  p.ledger->charge(mix);
}

/// Shows what the sinks have taken of each row. Nothing is computed from it, so it cannot be changed.
void tap_sinks(Pass& p, BlockSite at, const Sinks& sinks) {
  if (sinks.param == nullptr || !p.wants(at(AttentionSite::sink))) return;
  p.record(OpKind::attend_sink, std::initializer_list<Tensor>{}, sinks.shares, [] {});
  const Tensor seen = p.tap(at(AttentionSite::sink), sinks.shares);
  if (seen.data == sinks.shares.data || std::ranges::equal(seen.values(), sinks.shares.values())) return;
  throw BadInput(name_of(at(AttentionSite::sink)),
                 "expected no value to write: nothing is computed from this site (attn.hook_pattern can be written)");
}

/// The last step of tapped segments as one op of the tape and the ledger.
void record_mix(Pass& p, const AttendConfig& c, const std::vector<TappedSegment>& tapped,
                const std::vector<Tensor>& patterns, const Tensor& v, const Tensor& z) {
  Segments segments;
  for (const TappedSegment& s : tapped) segments.push_back(s.attention);
  std::vector<Tensor> inputs = patterns;
  inputs.push_back(v);
  p.record({OpKind::attend_mix, &c}, inputs, z, [&p, &c, segments, patterns, v, z] {
    const Tensor dv = p.grad(v), dz = p.grad(z);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const Tensor dpattern = p.training.linearizes ? Tensor() : p.grad(patterns[i]);
      for_each_strip_backward(p, c, segments[i], patterns[i], {},
                              [&](const Tile& tile, const GradientTile& d, std::int64_t at) {
                                segments[i].mix_backward(tile, d, dz, dv);
                                if (dpattern.data == nullptr) return;
                                p.kernels.add(dpattern.data + at, d.strips, tile.columns.size(), dpattern.data + at);
                              });
    }
  });
}

}  // namespace

void RelativeScores::add_to(std::vector<Tensor>& inputs) const {
  for (const Tensor& term : {bias, of_queries, of_keys}) {
    if (term.data != nullptr) inputs.push_back(term);
  }
}

Tensor attend(Pass& p, BlockSite at, const AttendConfig& c, const Mask& mask, const Tensor& q, const Tensor& k,
              const Tensor& v, const std::vector<KeySource>& sources, const RelativeScores& relative,
              const Param* sink_scores) {
  const Tensor z = p.tensor({q.rows(), c.n_heads, c.width_of_values()});
  Sinks sinks;
  if (c.sink) sinks = {sink_scores, p.vector(*sink_scores), p.tensor({q.rows(), c.n_heads})};
  const auto n_segments = static_cast<int>(sources.size());
  bool any_tapped = false;
  for (int i = 0; i < n_segments; ++i) any_tapped = any_tapped || is_tapped(p, at, i);
  Segments untapped;
  std::vector<TappedSegment> tapped;
  for (int i = 0; i < n_segments; ++i) {
    const KeySource& source = sources[static_cast<std::size_t>(i)];
    if (source.types() != KvTypes()) p.refuse_tape("keys and values that are not f32");
    const SegmentAttention attention(p, at, c, mask, i, q, z, source, relative, sinks);
    if (is_tapped(p, at, i) || (p.is_taped() && any_tapped)) {
      tapped.push_back({i, attention});
    } else {
      untapped.push_back(attention);
    }
  }
  std::vector<Tensor> patterns;
  if (any_tapped) patterns = run_step_by_step(p, at, c, tapped, q, k, relative, sinks.param);
  run_tiles(p, SegmentAttention::wide(c, z.shape[2]), untapped);
  if ((p.is_taped() || p.ledger != nullptr) && any_tapped) record_mix(p, c, tapped, patterns, v, z);
  if (p.is_taped() && !any_tapped) record_tiles(p, c, untapped, q, k, v, z, relative, sinks.param);
  if (p.ledger != nullptr && !any_tapped) enter_products(p, at, c, mask, q, z, sources);
  tap_sinks(p, at, sinks);
  return z;
}

}  // namespace vitrine
