#include "ops/attend.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kTileRows = 16;

/// Positions [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

/// Strips of `rows` queries of one K/V head. Column j of a strip belongs to position `columns.begin + j`.
struct Tile {
  std::int64_t first_row = 0;  // in the order [n_kv_heads][T][heads of the group]: the rows of a tile share their keys
  std::int64_t rows = 0;
  Range columns;
  float* queries = nullptr;  // room for [rows, head_dim]; for z afterwards
  float* strips = nullptr;   // [rows, columns]
  float* weights = nullptr;  // room for [rows, columns] where keys and values have scales

  float* strip(std::int64_t row) const { return strips + row * columns.size(); }
};

/// to[j] = from[j] · the scale of row j; returns `to`.
const float* scale_each(const float* from, const KvRows& rows, float* to) {
  for (std::int64_t j = 0; j < rows.view.rows; ++j) to[j] = from[j] * rows.scales[j * rows.scale_stride];
  return to;
}

/// The attention of one segment: four steps, each on one tile.
class SegmentAttention {
 public:
  /// keys, values: the present.
  SegmentAttention(Pass& p, BlockSite at, const AttendConfig& c, int segment, const Tensor& q, const Tensor& z,
                   const KvBatch& keys, const KvBatch& values, DType dtype)
      : p_(p),
        at_(at),
        c_(c),
        segment_(segment),
        s_(p.segments[static_cast<std::size_t>(segment)]),
        q_(q),
        z_(z),
        group_(c.n_heads / c.n_kv_heads),
        keys_(keys),
        values_(values),
        dtype_(dtype) {}

  /// Somebody looks: all strips stand in `[H, T, S]`, and each step runs over all of them before the next.
  void run_step_by_step() const;
  /// Nobody looks: one tile of at most `rows` rows goes through all four steps while it stands in cache. The first rows
  /// of `room` (queries, strips, weights) are its.
  void run_tile(std::int64_t i, std::int64_t rows, Tile room) const;

  bool is_seen() const;
  std::int64_t n_tiles(std::int64_t rows) const { return c_.n_kv_heads * tiles_per_kv_head(rows); }
  std::int64_t n_rows() const { return c_.n_heads * s_.length; }
  std::int64_t n_positions() const { return s_.position + s_.length; }
  std::int64_t operations() const { return n_rows() * n_positions() * (2 * c_.head_dim + 16); }

 private:
  using Step = void (SegmentAttention::*)(const Tile&) const;

  std::int64_t tiles_per_kv_head(std::int64_t rows) const { return (group_ * s_.length + rows - 1) / rows; }
  std::int64_t kv_head(std::int64_t row) const { return row / (group_ * s_.length); }
  std::int64_t token(std::int64_t row) const { return row / group_ % s_.length; }
  std::int64_t head(std::int64_t row) const { return kv_head(row) * group_ + row % group_; }
  KvRows present(const KvBatch& batch, std::int64_t kv_head) const;
  KvSpans spans(std::int64_t kv_head) const;
  Range visible(std::int64_t row) const;
  Range support(const Tile& tile, std::int64_t row, float neutral) const;

  void score(const Tile& tile) const;
  void cap_and_mask(const Tile& tile) const;
  void softmax(const Tile& tile) const;
  void mix_part(const Tile& tile, std::int64_t row, std::int64_t rows, Range range, const KvSpans& all) const;
  void mix(const Tile& tile) const;

  void for_each_strip(const Tensor& strips, Step step) const;

  Pass& p_;
  BlockSite at_;
  const AttendConfig& c_;
  int segment_;
  const Segment& s_;
  const Tensor& q_;
  const Tensor& z_;
  std::int64_t group_;
  KvBatch keys_, values_;  // the present of all K/V heads
  DType dtype_;
};

/// The mask rule: causal, within the window.
Range SegmentAttention::visible(std::int64_t row) const {
  const std::int64_t position = s_.position + token(row);
  return {c_.window ? std::max<std::int64_t>(0, position - *c_.window + 1) : 0, position + 1};
}

/// The visible columns of a strip; wider only where a tap has put values outside the mask.
Range SegmentAttention::support(const Tile& tile, std::int64_t row, float neutral) const {
  Range range = visible(tile.first_row + row);
  const float* at_position = tile.strip(row) - tile.columns.begin;
  const auto is_set = [&](std::int64_t s) { return at_position[s] != neutral; };
  for (std::int64_t s = tile.columns.begin; s < range.begin; ++s) {
    if (is_set(s)) range.begin = s;
  }
  for (std::int64_t s = tile.columns.end - 1; s >= range.end; --s) {
    if (is_set(s)) range.end = s + 1;
  }
  return range;
}

KvRows SegmentAttention::present(const KvBatch& batch, std::int64_t kv_head) const {
  const std::int64_t dh = c_.head_dim;
  return {{batch.rows + kv_head * dh * size_of(dtype_), dtype_, s_.length, dh, c_.n_kv_heads * dh, 1},
          batch.scales != nullptr ? batch.scales + kv_head : nullptr,
          c_.n_kv_heads};
}

KvSpans SegmentAttention::spans(std::int64_t kv_head) const {
  KvSpans spans;
  if (s_.cache != nullptr) spans = s_.cache->past(at_.layer, kv_head);
  spans.push({s_.position, present(keys_, kv_head), present(values_, kv_head)});
  return spans;
}

/// strip = q·k · score_scale; −∞ for positions that have left the cache.
void SegmentAttention::score(const Tile& tile) const {
  const std::int64_t dh = c_.head_dim;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float* q = q_.row(s_.first_row + token(tile.first_row + row)) + head(tile.first_row + row) * dh;
    std::copy(q, q + dh, tile.queries + row * dh);
  }
  const KvSpans all = spans(kv_head(tile.first_row));
  const Range held = {std::max(all.first_position(), tile.columns.begin), tile.columns.end};
  for (const KvSpan& span : all) {
    const Range part = {std::max(span.first_position, held.begin), std::min(span.end_position(), held.end)};
    if (part.size() <= 0) continue;
    const KvRows keys = span.keys.range(part.begin - span.first_position, part.size());
    float* const first = tile.strips + (part.begin - tile.columns.begin);
    p_.kernels.matmul(tile.queries, dh, tile.rows, keys.view, first, tile.columns.size());
    if (keys.scales == nullptr) continue;
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      scale_each(first + row * tile.columns.size(), keys, first + row * tile.columns.size());
    }
  }
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* const first_held = tile.strip(row) + (held.begin - tile.columns.begin);
    std::fill(tile.strip(row), first_held, kHidden);
    p_.kernels.scale(first_held, held.size(), c_.score_scale, first_held);
  }
}

/// strip = softcap · tanh(strip / softcap) where it is visible, −∞ elsewhere.
void SegmentAttention::cap_and_mask(const Tile& tile) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const Range range = visible(tile.first_row + row);
    float* const strip = tile.strip(row);
    float* const first = strip + (range.begin - tile.columns.begin);
    if (c_.softcap) p_.kernels.softcap(first, range.size(), *c_.softcap, first);
    std::fill(strip, first, kHidden);
    std::fill(first + range.size(), strip + tile.columns.size(), kHidden);
  }
}

/// strip = exp(strip − m) / Σ exp(strip − m)
void SegmentAttention::softmax(const Tile& tile) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const Range range = support(tile, row, kHidden);
    float* const strip = tile.strip(row);
    float* const first = strip + (range.begin - tile.columns.begin);
    const float largest = p_.kernels.max(first, range.size());
    const float sum = p_.kernels.exp_sum(first, range.size(), largest, first);
    p_.kernels.normalize(first, range.size(), 0.0f, sum, first);
    std::fill(strip, first, 0.0f);
    std::fill(first + range.size(), strip + tile.columns.size(), 0.0f);
  }
}

/// z += Σ_s strip[s] · v[s] over the positions of `part`, for `rows` rows of the tile from `row` on.
void SegmentAttention::mix_part(const Tile& tile, std::int64_t row, std::int64_t rows, Range range,
                                const KvSpans& all) const {
  const std::int64_t dh = c_.head_dim, n_columns = tile.columns.size();
  for (const KvSpan& span : all) {
    const Range part = {std::max(span.first_position, range.begin), std::min(span.end_position(), range.end)};
    if (part.size() <= 0) continue;
    const KvRows values = span.values.range(part.begin - span.first_position, part.size());
    const float* weights = tile.strip(row) + (part.begin - tile.columns.begin);
    if (values.scales != nullptr) {
      for (std::int64_t r = 0; r < rows; ++r) scale_each(weights + r * n_columns, values, tile.weights + r * n_columns);
      weights = tile.weights;
    }
    p_.kernels.weighted_rows(weights, n_columns, rows, values.view, tile.queries + row * dh, dh);
  }
}

/// z = Σ_s strip[s] · v[s], in ascending position: what all rows of the tile see they share, what only some see (the
/// first and the last positions) each adds alone, so that a row's sum does not depend on its neighbours.
void SegmentAttention::mix(const Tile& tile) const {
  const std::int64_t dh = c_.head_dim;
  const KvSpans all = spans(kv_head(tile.first_row));
  Range ranges[kTileRows], shared = tile.columns;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    ranges[row] = support(tile, row, 0.0f);
    if (ranges[row].begin < all.first_position()) {
      throw BadInput(name_of(at_(Site::pattern)), "position {} has left the cache and cannot be attended to",
                     ranges[row].begin);
    }
    shared = {std::max(shared.begin, ranges[row].begin), std::min(shared.end, ranges[row].end)};
  }
  shared.end = std::max(shared.begin, shared.end);
  std::fill(tile.queries, tile.queries + tile.rows * dh, 0.0f);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    mix_part(tile, row, 1, {ranges[row].begin, std::min(shared.begin, ranges[row].end)}, all);
  }
  mix_part(tile, 0, tile.rows, shared, all);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    mix_part(tile, row, 1, {std::max(shared.end, ranges[row].begin), ranges[row].end}, all);
    const std::int64_t of = tile.first_row + row;
    std::copy_n(tile.queries + row * dh, dh, z_.row(s_.first_row + token(of)) + head(of) * dh);
  }
}

void SegmentAttention::run_tile(std::int64_t i, std::int64_t rows, Tile room) const {
  const std::int64_t per_kv_head = tiles_per_kv_head(rows), rows_of_kv_head = group_ * s_.length;
  const std::int64_t first = i % per_kv_head * rows;
  room.first_row = i / per_kv_head * rows_of_kv_head + first;
  room.rows = std::min(rows, rows_of_kv_head - first);
  room.columns = {visible(room.first_row).begin, visible(room.first_row + room.rows - 1).end};
  score(room);
  cap_and_mask(room);
  softmax(room);
  mix(room);
}

void SegmentAttention::for_each_strip(const Tensor& strips, Step step) const {
  const ArenaScope scope(p_.arena);
  const Tensor queries = p_.tensor({p_.pool.size(), c_.head_dim});
  const Tensor weights = p_.tensor({p_.pool.size(), n_positions()});
  p_.pool.parallel_for(n_rows(), Pass::kWorthAThread / (operations() / n_rows() + 1) + 1,
                       [&](std::int64_t begin, std::int64_t end, int thread) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           p_.check_interrupt();
                           float* const strip = strips.data + (head(row) * s_.length + token(row)) * n_positions();
                           (this->*step)({row, 1, {0, n_positions()}, queries.row(thread), strip, weights.row(thread)});
                         }
                       });
}

void SegmentAttention::run_step_by_step() const {
  Tensor strips = p_.tensor({c_.n_heads, s_.length, n_positions()});
  const auto tapped = [&](Site site) {
    const Tensor seen = p_.tap(at_(site, segment_), strips);
    if (seen.data != strips.data) std::copy(seen.data, seen.data + seen.count(), strips.data);
  };
  for_each_strip(strips, &SegmentAttention::score);
  tapped(Site::scores_raw);
  for_each_strip(strips, &SegmentAttention::cap_and_mask);
  tapped(Site::scores);
  for_each_strip(strips, &SegmentAttention::softmax);
  tapped(Site::pattern);
  for_each_strip(strips, &SegmentAttention::mix);
}

bool SegmentAttention::is_seen() const {
  const auto seen = [&](Site site) { return p_.wants(at_(site, segment_)); };
  return seen(Site::scores_raw) || seen(Site::scores) || seen(Site::pattern);
}

/// The tiles of all segments, over threads.
void run_tiles(Pass& p, const AttendConfig& c, const std::vector<SegmentAttention>& segments, bool scaled) {
  std::int64_t operations = 0, n_rows = 0, positions = 0;
  for (const SegmentAttention& s : segments) {
    operations += s.operations();
    n_rows += s.n_rows();
    positions = std::max(positions, s.n_positions());
  }
  const std::int64_t n_lanes = std::clamp<std::int64_t>(operations / Pass::kWorthAThread, 1, p.pool.size());
  const std::int64_t rows = std::clamp<std::int64_t>(n_rows / n_lanes, 1, kTileRows);

  const ArenaScope scope(p.arena);
  const Tensor queries = p.tensor({n_lanes, rows, c.head_dim});
  const Tensor strips = p.tensor({n_lanes, rows, positions});
  const Tensor weights = scaled ? p.tensor({n_lanes, rows, positions}) : strips;
  p.pool.parallel_for(n_lanes, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t lane = begin; lane < end; ++lane) {
      const Tile room{0, 0, {}, queries.row(lane), strips.row(lane), weights.row(lane)};
      std::int64_t i = lane;  // lanes take turns: later tiles see more keys
      for (const SegmentAttention& s : segments) {
        const std::int64_t n_tiles = s.n_tiles(rows);
        for (; i < n_tiles; i += n_lanes) {
          p.check_interrupt();
          s.run_tile(i, rows, room);
        }
        i -= n_tiles;
      }
    }
  });
}

/// Rows `[T, n_kv_heads, head_dim]` as the cache's type stores them. i8: integers times a scale for each row and head,
/// the largest magnitude / 127.
KvBatch rounded(Pass& p, const Tensor& rows, DType dtype) {
  if (dtype == DType::f32) return {reinterpret_cast<const std::byte*>(rows.data), nullptr};
  std::byte* const stored = p.arena.bytes(rows.count() * size_of(dtype));
  if (dtype != DType::i8) {
    p.kernels.narrow(rows.data, rows.count(), dtype, stored);
    return {stored, nullptr};
  }
  const std::int64_t dh = rows.shape[2], n = rows.shape[0] * rows.shape[1];
  const Tensor scales = p.tensor({n});
  const Tensor scaled = p.tensor({n, dh});
  p.for_rows(n, 8 * dh, [&](std::int64_t row) {
    const float* const x = rows.data + row * dh;
    p.kernels.scale(x, dh, -1.0f, scaled.row(row));
    const float largest = std::max(p.kernels.max(x, dh), p.kernels.max(scaled.row(row), dh));
    scales.data[row] = largest / 127.0f;
    p.kernels.scale(x, dh, largest > 0 ? 127.0f / largest : 0.0f, scaled.row(row));
    p.kernels.narrow(scaled.row(row), dh, dtype, stored + row * dh);
  });
  return {stored, scales.data};
}

}  // namespace

Tensor attend(Pass& p, BlockSite at, const AttendConfig& c, const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor z = p.tensor(q.shape);
  std::vector<std::pair<KvBatch, KvBatch>> present;
  std::vector<SegmentAttention> unseen;
  bool scaled = false;
  for (std::size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& s = p.segments[i];
    const DType dtype = s.cache != nullptr ? s.cache->dtype() : p.kv_dtype;
    scaled = scaled || dtype == DType::i8;
    present.emplace_back(rounded(p, k.row_range(s.first_row, s.length), dtype),
                         rounded(p, v.row_range(s.first_row, s.length), dtype));
    const auto& [keys, values] = present.back();
    const SegmentAttention attention(p, at, c, static_cast<int>(i), q, z, keys, values, dtype);
    if (attention.is_seen()) {
      attention.run_step_by_step();
    } else {
      unseen.push_back(attention);
    }
  }
  run_tiles(p, c, unseen, scaled);
  for (std::size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& s = p.segments[i];
    if (s.cache != nullptr) s.cache->append(at.layer, present[i].first, present[i].second, s.length);
  }
  return z;
}

}  // namespace vitrine
