#include "ops/segment_attention.h"

#include <algorithm>

#include "base/error.h"
#include "ops/attention_sites.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

/// Requests the beginning of the keys of a block before the block ahead of it is multiplied: the products prefetch what
/// follows in memory, which is not the next block.
void prefetch_start(const KvRows& keys) {
  constexpr std::int64_t kBytes = 8192, kLine = 64;
  const std::int64_t bytes = keys.rows * keys.stride;
  for (std::int64_t at = 0; at < std::min(bytes, kBytes); at += kLine) {
    __builtin_prefetch(keys.data + at, 0, 2);
  }
}

}  // namespace

void SegmentAttention::place(std::int64_t i, std::int64_t rows, Tile& tile) const {
  const std::int64_t per_kv_head = tiles_per_kv_head(rows), rows_of_kv_head = group_ * s_.length;
  const std::int64_t kv_head = i / per_kv_head, first = i % per_kv_head * rows;
  tile.first_row = kv_head * rows_of_kv_head + first;
  tile.rows = std::min(rows, rows_of_kv_head - first);
  tile.columns = {visible(tile.first_row).begin, visible(tile.first_row + tile.rows - 1).end};
  tile.keys = source_.spans(kv_head);
}

void SegmentAttention::place_strip(std::int64_t row, Tile& tile) const {
  tile.first_row = row;
  tile.rows = 1;
  tile.columns = {0, n_positions()};
  tile.keys = source_.spans(kv_head(row));
}

Positions SegmentAttention::visible(std::int64_t row) const {
  return mask_.visible(s_.position + token(row), n_positions() - source_.n_padding);
}

/// The visible columns of a strip, extended to values other than `neutral` that a tap has written outside the mask.
Positions SegmentAttention::support(const Tile& tile, std::int64_t row, float neutral) const {
  Positions range = visible(tile.first_row + row);
  const float* strip = tile.strip(row);
  const auto is_set = [&](std::int64_t s) { return strip[s - tile.columns.begin] != neutral; };
  for (std::int64_t s = tile.columns.begin; s < range.begin; ++s) {
    if (is_set(s)) range.begin = s;
  }
  for (std::int64_t s = tile.columns.end - 1; s >= range.end; --s) {
    if (is_set(s)) range.end = s + 1;
  }
  return range;
}

/// to[s] += Σ_row strips[row, s] · d.rows[row] for the tile's columns s in `range`, in ascending order of rows. `to` is
/// the gradient of k or of v, of whose heads the first `n_columns` elements change.
void SegmentAttention::add_transposed(const Tile& tile, const float* strips, const GradientTile& d,
                                      std::int64_t n_columns, const Tensor& to, Positions range) const {
  const std::int64_t n = range.size(), skipped = range.begin - tile.columns.begin;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float* const strip = strips + row * tile.columns.size() + skipped;
    for (std::int64_t s = 0; s < n; ++s) d.transposed[s * tile.rows + row] = strip[s];
  }
  float* const first = to.row(source_.first_row + range.begin) + kv_head(tile.first_row) * to.shape[2];
  p_.kernels.weighted_rows(d.transposed, tile.rows, n, view_of(d.rows, tile.rows, n_columns, wide()), first,
                           to.row_size());
}

/// The heads of the tile's rows in `from`, in d.rows.
void SegmentAttention::copy_rows(const Tensor& from, const Tile& tile, std::int64_t n_columns,
                                 const GradientTile& d) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    std::copy_n(head_of(from, tile.first_row + row), n_columns, d.rows + row * wide());
  }
}

void SegmentAttention::add_to_values(const Tile& tile, const GradientTile& d, const Tensor& dz, const Tensor& dv,
                                     Positions range) const {
  range = {std::max(range.begin, tile.columns.begin), std::min(range.end, tile.columns.end)};
  if (range.begin >= range.end) return;
  copy_rows(dz, tile, value_dim_, d);
  add_transposed(tile, tile.strips, d, value_dim_, dv, range);
}

void SegmentAttention::add_to_keys(const Tile& tile, const GradientTile& d, const Tensor& dk, Positions range) const {
  range = {std::max(range.begin, tile.columns.begin), std::min(range.end, tile.columns.end)};
  if (range.begin >= range.end) return;
  copy_rows(q_, tile, c_.head_dim, d);
  add_transposed(tile, d.strips, d, c_.head_dim, dk, range);
}

/// strip = q·k · score_scale; −∞ for positions that have left the cache.
void SegmentAttention::score(const Tile& tile) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float* const query = head_of(q_, tile.first_row + row);
    float* const to = tile.queries + row * wide();
    if (is_integer(source_.keys.type)) {
      source_.rotate_key(p_.kernels, query, c_.head_dim, to);
    } else {
      std::copy_n(query, c_.head_dim, to);
    }
  }
  const Positions held = {std::max(tile.keys.first_position(), tile.columns.begin), tile.columns.end};
  const KvSpans spans = tile.keys.within(held.begin, held.end);
  for (auto next = spans.begin(); next != spans.end();) {
    const KvSpan span = *next;
    if (++next != spans.end() && tile.rows < Tile::kMaxRows) prefetch_start(next->keys);  // few rows wait for memory
    float* const first = tile.strips + (span.first_position - tile.columns.begin);
    p_.kernels.kv.score(tile.queries, wide(), tile.rows, span.keys, first, tile.columns.size(), tile.scratch);
  }
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* const first_held = tile.strip(row) + (held.begin - tile.columns.begin);
    std::fill(tile.strip(row), first_held, kHidden);
    p_.kernels.scale(first_held, held.size(), c_.score_scale, first_held);
  }
}

/// dq += score_scale · Σ_s dstrip[s] · k[s], dk[s] += score_scale · Σ dstrip[s] · q
void SegmentAttention::score_backward(const Tile& tile, const GradientTile& d, const Tensor& dq,
                                      const Tensor& dk) const {
  const std::int64_t dh = c_.head_dim, n = tile.columns.size();
  p_.kernels.scale(d.strips, tile.rows * n, c_.score_scale, d.strips);
  const KvRows keys = source_.own(source_.keys, kv_head(tile.first_row)).range(tile.columns.begin, n);
  std::fill_n(d.rows, tile.rows * wide(), 0.0f);
  p_.kernels.weighted_rows(d.strips, n, tile.rows, keys.view(), d.rows, wide());
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* const to = head_of(dq, tile.first_row + row);
    const float* const own = d.rows + row * wide();
    p_.kernels.add(to, own, dh, to);
  }
  if (dk.data != nullptr) add_to_keys(tile, d, dk, tile.columns);
}

template <class Add>
void SegmentAttention::for_each_term(const Tensor& of_queries, const Tensor& of_keys, std::int64_t row, Positions range,
                                     Add&& add) const {
  const std::vector<std::int32_t>& rows = *relative_.row_of_distance;
  const std::int64_t n = std::ssize(rows) / 2 + 1, query = s_.position + token(row);  // distances from −(n − 1) on
  float* const own = of_queries.data != nullptr ? head_of(of_queries, row) : nullptr;
  for (std::int64_t s = range.begin; s < range.end; ++s) {
    const auto at = rows[static_cast<std::size_t>(query - s + n - 1)];
    float* const key =
        of_keys.data != nullptr ? of_keys.row(s_.first_row + s) + head(row) * of_keys.shape[2] + at : nullptr;
    add(s - range.begin, own != nullptr ? own + at : nullptr, key);
  }
}

/// strip = softcap · tanh((strip + biases) / softcap) at visible positions, −∞ elsewhere.
void SegmentAttention::cap_and_mask(const Tile& tile) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const Positions range = visible(tile.first_row + row);
    float* const strip = tile.strip(row);
    float* const first = strip + (range.begin - tile.columns.begin);
    if (relative_.bias.data != nullptr) {
      p_.kernels.add(first, bias_of(relative_.bias, tile.first_row + row, range), range.size(), first);
    }
    if (relative_.is_by_row()) {
      for_each_term(relative_.of_queries, relative_.of_keys, tile.first_row + row, range,
                    [&](std::int64_t i, const float* query, const float* key) {
                      first[i] += (query != nullptr ? *query : 0.0f) + (key != nullptr ? *key : 0.0f);
                    });
    }
    if (c_.alibi) {
      const float slope = c_.alibi->slopes[static_cast<std::size_t>(head(tile.first_row + row))];
      add_alibi(slope, range.begin - (s_.position + token(tile.first_row + row)), range.size(), first);
    }
    if (c_.softcap) p_.kernels.softcap(first, range.size(), *c_.softcap, first);
    std::fill(strip, first, kHidden);
    std::fill(first + range.size(), strip + tile.columns.size(), kHidden);
  }
}

/// dstrip · (1 − (capped / softcap)²) at visible positions, 0 elsewhere.
void SegmentAttention::cap_backward(const Tile& tile, const float* capped, const GradientTile& d) const {
  const std::int64_t n = tile.columns.size();
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const Positions range = visible(tile.first_row + row);
    float* const strip = d.strips + row * n;
    float* const first = strip + (range.begin - tile.columns.begin);
    std::fill(strip, first, 0.0f);
    std::fill(first + range.size(), strip + n, 0.0f);
    if (c_.softcap) {
      const float* const y = capped + row * n + (range.begin - tile.columns.begin);
      softcap_slope(y, range.size(), *c_.softcap, d.transposed);
      p_.kernels.multiply(first, d.transposed, range.size(), first);
    }
    if (d.of_queries.data != nullptr || d.of_keys.data != nullptr) {
      for_each_term(d.of_queries, d.of_keys, tile.first_row + row, range,
                    [&](std::int64_t i, float* query, float* key) {
                      if (query != nullptr) *query += first[i];
                      if (key != nullptr) *key += first[i];
                    });
    }
    if (d.bias.data == nullptr) continue;
    float* const dbias = bias_of(d.bias, tile.first_row + row, range);
    p_.kernels.add(dbias, first, range.size(), dbias);
  }
}

void SegmentAttention::normalize(std::int64_t row, float* scores, std::int64_t n) const {
  const float* const sink = sinks_.scores != nullptr ? sinks_.scores + head(row) : nullptr;
  float largest = p_.kernels.max(scores, n);
  if (sink != nullptr) largest = std::max(largest, *sink);
  float sum = p_.kernels.exp_sum(scores, n, largest, scores);
  if (sink != nullptr) {
    float& share = element_of(sinks_.shares, row);
    sum += p_.kernels.exp_sum(sink, 1, largest, &share);
    share /= sum;
  }
  p_.kernels.normalize(scores, n, 0.0f, sum, scores);
}

/// strip = exp(strip − m) / Σ exp(strip − m)
void SegmentAttention::softmax(const Tile& tile) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const Positions range = support(tile, row, kHidden);
    float* const strip = tile.strip(row);
    float* const first = strip + (range.begin - tile.columns.begin);
    normalize(tile.first_row + row, first, range.size());
    std::fill(strip, first, 0.0f);
    std::fill(first + range.size(), strip + tile.columns.size(), 0.0f);
  }
}

void SegmentAttention::drop(const Tile& tile, float* scratch) const {
  const std::int64_t n = tile.columns.size();
  const DropoutMask mask = p_.training.dropout.mask(pattern_site());
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t first = strip_offset(tile.first_row + row) + tile.columns.begin;
    p_.kernels.dropout_factors(mask, first, n, scratch);
    p_.kernels.multiply(tile.strip(row), scratch, n, tile.strip(row));
  }
}

/// strip · (dstrip − Σ strip · dstrip)
void SegmentAttention::softmax_backward(const Tile& tile, const GradientTile& d) const {
  const std::int64_t n = tile.columns.size();
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* const dstrip = d.strips + row * n;
    const float mean = p_.kernels.dot(tile.strip(row), dstrip, n);
    if (d.sinks.data != nullptr) {
      const std::int64_t at = tile.first_row + row;
      element_of(d.sinks, at) = -element_of(sinks_.shares, at) * mean;
    }
    p_.kernels.normalize(dstrip, n, mean, 1.0f, dstrip);
    p_.kernels.multiply(tile.strip(row), dstrip, n, dstrip);
  }
}

/// z += Σ_s strip[s] · v[s] over the positions of `range`, for `rows` rows of the tile from `row` on.
void SegmentAttention::mix_part(const Tile& tile, std::int64_t row, std::int64_t rows, Positions range) const {
  const std::int64_t n_columns = tile.columns.size();
  if (range.size() <= 0) return;
  for (const KvSpan& span : tile.keys.within(range.begin, range.end)) {
    const float* const weights = tile.strip(row) + (span.first_position - tile.columns.begin);
    p_.kernels.kv.mix(weights, n_columns, rows, span.values, tile.queries + row * wide(), wide());
  }
}

/// z = Σ_s strip[s] · v[s], in ascending order of position. Positions that are visible to all rows of the tile are
/// summed for all rows at once. The other positions, before and after these, are added row by row. So the sum of a row
/// does not depend on the other rows.
void SegmentAttention::mix(const Tile& tile) const {
  Positions ranges[Tile::kMaxRows], shared = tile.columns;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    ranges[row] = support(tile, row, 0.0f);
    if (ranges[row].begin < tile.keys.first_position()) {
      throw BadInput(name_of(at_(AttentionSite::pattern)),
                     "position {} is no longer in the cache and cannot be attended to", ranges[row].begin);
    }
    shared = {std::max(shared.begin, ranges[row].begin), std::min(shared.end, ranges[row].end)};
  }
  shared.end = std::max(shared.begin, shared.end);
  std::fill_n(tile.queries, tile.rows * wide(), 0.0f);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    mix_part(tile, row, 1, {ranges[row].begin, std::min(shared.begin, ranges[row].end)});
  }
  mix_part(tile, 0, tile.rows, shared);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    mix_part(tile, row, 1, {std::max(shared.end, ranges[row].begin), ranges[row].end});
    const float* const z = tile.queries + row * wide();
    float* const to = head_of(z_, tile.first_row + row);
    if (is_integer(source_.values.type)) {
      p_.kernels.kv.rotate(z, value_dim_, to);
    } else {
      std::copy_n(z, value_dim_, to);
    }
  }
}

/// dstrip[s] = dz · v[s], dv[s] += Σ strip[s] · dz
void SegmentAttention::mix_backward(const Tile& tile, const GradientTile& d, const Tensor& dz, const Tensor& dv) const {
  const std::int64_t n = tile.columns.size();
  copy_rows(dz, tile, value_dim_, d);
  const KvRows values = source_.own(source_.values, kv_head(tile.first_row)).range(tile.columns.begin, n);
  p_.kernels.matmul(d.rows, wide(), tile.rows, values.view(), d.strips, n, tile.scratch);
  if (dv.data != nullptr) add_transposed(tile, tile.strips, d, value_dim_, dv, tile.columns);
}

}  // namespace vitrine
