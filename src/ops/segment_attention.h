// Attention of one segment: four steps that each work on a tile of strips (ops/attend.h), and their backward.
#pragma once

#include <algorithm>
#include <limits>

#include "ops/attend.h"
#include "ops/attention_sites.h"

namespace vitrine {

/// The strips of `rows` queries of one K/V head. Column j of a strip belongs to position `columns.begin + j`.
struct Tile {
  static constexpr std::int64_t kMaxRows = 16;

  float* queries = nullptr;  // scratch [rows, wide]; holds the queries, then z
  float* strips = nullptr;   // [rows, columns]
  float* scratch = nullptr;  // of one thread, for the kernels
  // Rows are ordered as [n_kv_heads][T][heads of the group], so that a tile shares its keys.
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  Positions columns{};
  KvSpans keys{};  // keys and values of the K/V head

  float* strip(std::int64_t row) const { return strips + row * columns.size(); }
};

/// The sinks of a layer.
struct Sinks {
  const Param* param = nullptr;   ///< Null: there are none.
  const float* scores = nullptr;  ///< `[n_heads]`
  Tensor shares{};                ///< `[T, n_heads]`: the probability of attending to nothing, set by softmax().
};

/// The gradients of a tile's strips, with scratch.
struct GradientTile {
  float* strips = nullptr;         // [rows, columns]
  float* transposed = nullptr;     // scratch [columns, rows]
  float* rows = nullptr;           // scratch [rows, wide]
  Tensor bias{};                   // of the relative bias, summed over the tiles of a segment
  Tensor sinks{};                  // of the sinks by each row: [T, n_heads]
  Tensor of_queries{}, of_keys{};  // of the terms by row of a table
};

class SegmentAttention {
 public:
  static constexpr float kHidden = -std::numeric_limits<float>::infinity();

  SegmentAttention(Pass& p, BlockSite at, const AttendConfig& c, const Mask& mask, int segment, const Tensor& q,
                   const Tensor& z, const KeySource& source, const RelativeScores& relative, const Sinks& sinks)
      : p_(p),
        at_(at),
        c_(c),
        mask_(mask),
        segment_(segment),
        s_(p.segments_of(at.stack)[static_cast<std::size_t>(segment)]),
        q_(q),
        z_(z),
        group_(c.n_heads / c.n_kv_heads),
        source_(source),
        relative_(relative),
        value_dim_(z.shape[2]),
        sinks_(sinks) {}

  const Segment& segment() const { return s_; }

  /// Elements from one row of a tile's scratch to the next: of a key, or of a value if that is larger.
  static std::int64_t wide(const AttendConfig& c, std::int64_t value_dim) { return std::max(c.head_dim, value_dim); }
  std::int64_t wide() const { return wide(c_, value_dim_); }

  std::int64_t n_rows() const { return c_.n_heads * s_.length; }
  std::int64_t n_positions() const { return source_.n_positions(); }
  std::int64_t operations() const { return n_rows() * n_positions() * (c_.head_dim + value_dim_ + 16); }
  std::int64_t n_tiles(std::int64_t rows) const { return c_.n_kv_heads * tiles_per_kv_head(rows); }
  std::int64_t tiles_per_kv_head(std::int64_t rows) const { return (group_ * s_.length + rows - 1) / rows; }
  /// The offset of a row's strip in `[H, T, S]`.
  std::int64_t strip_offset(std::int64_t row) const { return (head(row) * s_.length + token(row)) * n_positions(); }
  /// Moves `tile` to tile `i` of the tiles of at most `rows` rows.
  void place(std::int64_t i, std::int64_t rows, Tile& tile) const;
  /// Moves `tile` to one row and all columns.
  void place_strip(std::int64_t row, Tile& tile) const;

  void score(const Tile& tile) const;
  void cap_and_mask(const Tile& tile) const;
  void softmax(const Tile& tile) const;
  /// Multiplies strips by the factors of dropout. `scratch` is as long as one strip.
  void drop(const Tile& tile, float* scratch) const;
  void mix(const Tile& tile) const;

  // Backward, for segments without a cache. mix_backward computes d.strips from dz. Each other step replaces d.strips,
  // the gradient of its output, with the gradient of its input. The gradients of q, k and v are accumulated; without
  // data, dk and dv are not, and add_to_values and add_to_keys add to some rows of them later.
  void mix_backward(const Tile& tile, const GradientTile& d, const Tensor& dz, const Tensor& dv) const;
  void softmax_backward(const Tile& tile, const GradientTile& d) const;
  // softmax_backward also sets the elements of d.sinks, if it has data.
  /// `capped`: the strips after cap_and_mask. Adds to d.bias, if it has data.
  void cap_backward(const Tile& tile, const float* capped, const GradientTile& d) const;
  void score_backward(const Tile& tile, const GradientTile& d, const Tensor& dq, const Tensor& dk) const;
  /// Adds to the gradients of v, or of k, at the positions that the tile and `range` share. tile.strips: as
  /// mix_backward read them; d.strips: as score_backward left them.
  void add_to_values(const Tile& tile, const GradientTile& d, const Tensor& dz, const Tensor& dv,
                     Positions range) const;
  /// The gradient of the z of a row of tiles, which is that of one head of a token.
  std::span<const float> gradient_of(const Tensor& dz, std::int64_t row) const {
    return {head_of(dz, row), static_cast<std::size_t>(value_dim_)};
  }
  void add_to_keys(const Tile& tile, const GradientTile& d, const Tensor& dk, Positions range) const;

 private:
  SiteId pattern_site() const { return at_(AttentionSite::pattern, segment_); }
  std::int64_t kv_head(std::int64_t row) const { return row / (group_ * s_.length); }
  std::int64_t token(std::int64_t row) const { return row / group_ % s_.length; }
  std::int64_t head(std::int64_t row) const { return kv_head(row) * group_ + row % group_; }
  /// The row's head in a tensor `[T, n_heads, n]`.
  float* head_of(const Tensor& x, std::int64_t row) const {
    return x.row(s_.first_row + token(row)) + head(row) * x.shape[2];
  }
  /// The row's element of a tensor `[T, n_heads]`.
  float& element_of(const Tensor& x, std::int64_t row) const { return x.row(s_.first_row + token(row))[head(row)]; }
  /// Divides exp(score − largest), which it replaces scores by, by their sum with the sink's.
  void normalize(std::int64_t row, float* scores, std::int64_t n) const;
  Positions visible(std::int64_t row) const;
  /// The elements of `bias`, or of its gradient, at the distances from a row's query to `range`.
  float* bias_of(const Tensor& bias, std::int64_t row, Positions range) const {
    return bias.row(head(row)) + (range.begin - (s_.position + token(row)) + bias.row_size() / 2);
  }
  /// Calls add(query, key) for the positions of `range`: the elements of two tensors like RelativeScores::of_queries
  /// and of_keys that a row's score at each position has as terms; null for a tensor without data.
  template <class Add>
  void for_each_term(const Tensor& of_queries, const Tensor& of_keys, std::int64_t row, Positions range,
                     Add&& add) const;
  Positions support(const Tile& tile, std::int64_t row, float neutral) const;
  void mix_part(const Tile& tile, std::int64_t row, std::int64_t rows, Positions range) const;
  void add_transposed(const Tile& tile, const float* strips, const GradientTile& d, std::int64_t n_columns,
                      const Tensor& to, Positions range) const;
  void copy_rows(const Tensor& from, const Tile& tile, std::int64_t n_columns, const GradientTile& d) const;

  Pass& p_;
  BlockSite at_;
  const AttendConfig& c_;
  Mask mask_;
  int segment_;
  const Segment& s_;
  Tensor q_, z_;
  std::int64_t group_;
  KeySource source_;
  RelativeScores relative_;
  std::int64_t value_dim_;
  Sinks sinks_;
};

}  // namespace vitrine
