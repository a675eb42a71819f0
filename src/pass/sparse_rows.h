// Rows that are mostly zeros.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vitrine {

/// An element of a sparse row.
struct SparseValue {
  std::int32_t index = 0;
  float value = 0;
};

/// A matrix of which only the elements that are not 0 are stored, row by row, with ascending indices.
struct SparseRows {
  std::vector<std::vector<SparseValue>> rows{};

  std::span<const SparseValue> row(std::int64_t t) const { return rows[static_cast<std::size_t>(t)]; }
};

}  // namespace vitrine
