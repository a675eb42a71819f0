// Which positions a query may attend to.
#pragma once

#include <cstdint>
#include <optional>

namespace vitrine {

/// Positions [begin, end).
struct Positions {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

/// Causal: a query sees its own position and those before it. Full: it sees every position of its segment. Segments of
/// different lengths need no padding mask, since each has exactly its own positions. A window narrows either rule to
/// the last `window` positions up to the query's own.
struct Mask {
  enum class Kind : std::uint8_t { causal, full };

  Kind kind = Kind::causal;
  std::optional<std::int64_t> window;  ///< Tokens that a query sees, its own included.

  /// The positions that the query at `position` sees of [0, n_positions).
  Positions visible(std::int64_t position, std::int64_t n_positions) const;
  /// Σ visible(position).size() over `n` queries, the first at `position`.
  double count_visible(std::int64_t position, std::int64_t n, std::int64_t n_positions) const;

  bool operator==(const Mask&) const = default;
};

}  // namespace vitrine
