#include "ops/attend_backward.h"

#include "ops/linear.h"

namespace vitrine {
namespace {

/// The backward of the four steps, over tiles whose strips are recomputed.
class TileBackward {
 public:
  TileBackward(Pass& p, const AttendConfig& c, const Segments& segments, const Tensor& dz, const Tensor& dq,
               const Tensor& dk, const Tensor& dv, const RelativeScores& relative, const Param* sinks)
      : p_(p),
        c_(c),
        segments_(segments),
        dz_(dz),
        dq_(dq),
        dk_(dk),
        dv_(dv),
        scratch_(p, SegmentAttention::wide(c, dz.shape[2]), kRows, max_positions(segments)),
        drows_(p, relative),
        dbiases_(zero_biases(p, relative.bias, segments.size())),
        dsinks_(sinks_by_row(p, sinks, dq.rows())) {}

  void run() {
    const auto n = static_cast<std::int64_t>(segments_.size()) * c_.n_kv_heads;
    if (n >= p_.pool.size() || dbiases_.data != nullptr || drows_.exist() || p_.shapes_only) {
      return for_kv_heads(p_, c_, segments_, [&](const SegmentAttention& s, std::int64_t kv_head, int worker) {
        const std::int64_t n_tiles = s.tiles_per_kv_head(kRows);
        for (std::int64_t i = kv_head * n_tiles; i < (kv_head + 1) * n_tiles; ++i) run(s, i, worker, dk_, dv_);
      });
    }
    for (const SegmentAttention& s : segments_) {
      for (std::int64_t kv_head = 0; kv_head < c_.n_kv_heads; ++kv_head) run_in_rounds(s, kv_head);
    }
  }

  const Tensor& dbiases() const { return dbiases_; }
  const Tensor& dsinks() const { return dsinks_; }

 private:
  static constexpr std::int64_t kRows = Tile::kMaxRows;

  bool drops() const { return p_.training.dropout.rate > 0; }
  float* values_factors(const Tile& tile, int slot) const { return drops() ? scratch_.dropped.row(slot) : tile.strips; }

  /// Tile `i` of a segment, in a slot of the scratch.
  void run(const SegmentAttention& s, std::int64_t i, int slot, const Tensor& dk, const Tensor& dv) const {
    Tile tile = scratch_.tile(slot);
    s.place(i, kRows, tile);
    GradientTile d = scratch_.gradient(slot);
    d.bias = part_of(dbiases_, &s - segments_.data());
    d.sinks = dsinks_;
    d.of_queries = drows_.of_queries, d.of_keys = drows_.of_keys;
    s.score(tile);
    s.cap_and_mask(tile);
    float* const capped = scratch_.capped.row(slot);
    if (c_.softcap) std::copy_n(tile.strips, tile.rows * tile.columns.size(), capped);
    s.softmax(tile);
    Tile dropped = tile;
    if (drops()) {
      dropped.strips = values_factors(tile, slot);
      std::copy_n(tile.strips, tile.rows * tile.columns.size(), dropped.strips);
      s.drop(dropped, d.transposed);
    }
    s.mix_backward(dropped, d, dz_, dv);
    if (drops()) {  // the same factors apply to the gradient
      Tile gradient = tile;
      gradient.strips = d.strips;
      s.drop(gradient, d.transposed);
    }
    s.softmax_backward(tile, d);
    s.cap_backward(tile, capped, d);
    s.score_backward(tile, d, dq_, dk);
  }

  /// The tiles of a K/V head, if there are fewer such heads than threads: the threads process a tile each, then add to
  /// the gradients of the keys and values at a range of positions each, tile by tile. The order of the sums is that of
  /// one thread.
  void run_in_rounds(const SegmentAttention& s, std::int64_t kv_head) const {
    const std::int64_t n_tiles = s.tiles_per_kv_head(kRows), n_slots = p_.pool.size();
    const std::int64_t end = (kv_head + 1) * n_tiles;
    for (std::int64_t first = kv_head * n_tiles; first < end; first += n_slots) {
      const std::int64_t n = std::min(n_slots, end - first);
      p_.check_interrupt();
      p_.parallel_for(n, 1, [&](std::int64_t from, std::int64_t to, int) {
        for (std::int64_t slot = from; slot < to; ++slot) run(s, first + slot, static_cast<int>(slot), {}, {});
      });
      const std::int64_t n_positions = s.n_positions(), part = (n_positions + n_slots - 1) / n_slots;
      p_.parallel_for(n_slots, 1, [&](std::int64_t from, std::int64_t to, int thread) {
        const Positions range{from * part, std::min(to * part, n_positions)};
        for (std::int64_t slot = 0; slot < n; ++slot) add(s, first + slot, static_cast<int>(slot), range, thread);
      });
    }
  }

  /// Adds what a tile in a slot adds to the keys and values in `range`, with the scratch of a thread.
  void add(const SegmentAttention& s, std::int64_t i, int slot, Positions range, int thread) const {
    Tile tile = scratch_.tile(slot);
    s.place(i, kRows, tile);
    GradientTile d = scratch_.gradient(thread);
    d.strips = scratch_.gradient(slot).strips;
    tile.strips = values_factors(tile, slot);
    s.add_to_values(tile, d, dz_, dv_, range);
    s.add_to_keys(tile, d, dk_, range);
  }

  Pass& p_;
  const AttendConfig& c_;
  const Segments& segments_;
  const Tensor dz_, dq_, dk_, dv_;
  const BackwardScratch scratch_;
  const RowGradients drows_;
  const Tensor dbiases_, dsinks_;
};

/// Whether the gradient of some head in the tile's rows is not zero.
bool has_gradient(const SegmentAttention& s, const Tile& tile, const Tensor& dz) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::span<const float> head = s.gradient_of(dz, tile.first_row + row);
    if (std::ranges::any_of(head, [](float v) { return v != 0; })) return true;
  }
  return false;
}

}  // namespace

void run_values_backward(Pass& p, const AttendConfig& c, const Segments& segments, const Tensor& dz, const Tensor& dv) {
  constexpr std::int64_t kRows = Tile::kMaxRows;
  const ArenaScope scope(p.arena);
  const BackwardScratch scratch(p, SegmentAttention::wide(c, dz.shape[2]), kRows, max_positions(segments));
  for_kv_heads(p, c, segments, [&](const SegmentAttention& s, std::int64_t kv_head, int worker) {
    const std::int64_t n_tiles = s.tiles_per_kv_head(kRows);
    for (std::int64_t i = kv_head * n_tiles; i < (kv_head + 1) * n_tiles; ++i) {
      Tile tile = scratch.tile(worker);
      s.place(i, kRows, tile);
      if (!p.shapes_only && !has_gradient(s, tile, dz)) continue;  // no later token has one
      s.score(tile);
      s.cap_and_mask(tile);
      s.softmax(tile);
      s.add_to_values(tile, scratch.gradient(worker), dz, dv, tile.columns);
    }
  });
}

void run_tiles_backward(Pass& p, const AttendConfig& c, const Segments& segments, const Tensor& dz, const Tensor& dq,
                        const Tensor& dk, const Tensor& dv, const RelativeScores& relative, const Param* sinks) {
  const ArenaScope scope(p.arena);
  TileBackward backward(p, c, segments, dz, dq, dk, dv, relative, sinks);
  backward.run();
  add_biases(p, backward.dbiases(), relative.bias);
  if (sinks != nullptr) add_bias_gradient(p, backward.dsinks(), *sinks);
}

}  // namespace vitrine
