// Which positions a query may attend to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace vitrine {

/// Positions [begin, end).
struct Positions {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

/// Causal: a query attends to its own position and earlier ones. Full: it attends to every position of its segment.
/// A window excludes positions that are more than `window` − 1 from the query's own. A chunked window excludes those of
/// earlier chunks: a chunk begins at each multiple of `window`. Segments of different lengths need no mask: each
/// attends to itself.
struct Mask {
  enum class Kind : std::uint8_t { causal, full };

  Kind kind = Kind::causal;
  std::optional<std::int64_t> window;  ///< In tokens, including the query's own.
  bool chunked = false;                ///< The window is the query's chunk. Causal masks only.

  /// The positions in [0, n_positions) that the query at `position` attends to.
  Positions visible(std::int64_t position, std::int64_t n_positions) const {
    const std::int64_t reach = window.value_or(n_positions);
    const std::int64_t first = chunked && window ? position / *window * *window : position - reach + 1;
    const std::int64_t begin = window ? std::max<std::int64_t>(0, first) : 0;
    const std::int64_t end = kind == Kind::causal ? position + 1 : window ? position + reach : n_positions;
    return {std::min(begin, n_positions), std::min(end, n_positions)};
  }
  /// The sum of visible(position).size() over `n` queries, the first at `position`.
  double count_visible(std::int64_t position, std::int64_t n, std::int64_t n_positions) const;

  bool operator==(const Mask&) const = default;
};

}  // namespace vitrine
