// What adapters add to the result of a linear map (pass/adapter.h).
//
//   LoRA   z[t] = B · (s · A · x[t]),  y[t] += z[t]
//          dB[o, r] += Σ_t dz[t, o] · u[t, r]     u = s · A · x, dz = dy
//          dA[r, i] += Σ_t s · (Bᵀ dz[t])[r] · x[t, i],  dx[t] += Aᵀ · s · Bᵀ · dz[t]
//   DoRA   y[t, o] ← f[o] · (y[t, o] + z[t, o]),  f = m / ‖W + s · B · A‖
//          dz = f ⊙ dy,  the map's own dy = f ⊙ dy,  dm[o] += Σ_t dy[t, o] · (y[t, o] + z[t, o]) / ‖W + s · B · A‖[o]
//          A map by the transposed rows has the factors before it: y = (W + s · B · A)ᵀ · (f ⊙ x), and the gradients
//          of f ⊙ x.
//
// The adapters are those of the segments that the rows belong to (Pass::rows). A row of x has the same bits whatever
// the other rows and their adapters.
#pragma once

#include <functional>
#include <optional>

#include "pass/pass.h"

namespace vitrine {

/// The site of what is added, and the shape of its value.
struct AddedSite {
  SiteId id;
  std::optional<Shape> shape{};  ///< Absent: that of the map's result.
};

/// B · (factor · A · x), of the shape of the map's result for these rows, recorded.
using LowRankProduct = std::function<Tensor(const LowRank& low, float factor, const Tensor& x)>;

/// Which rows of a weight belong to a head: `count`, from h · step + first on.
struct HeadRows {
  std::int64_t step, first, count;
  bool is_transposed = false;

  /// The row of element i of vectors that have `count` elements for each head.
  std::int64_t row_of(std::int64_t i) const { return i / count * step + first + i % count; }
};

/// A map that is not `linear`. The rows of its result `[n · out]` are the results of n parts of a row of x.
struct AdaptedMap {
  LowRankProduct product;          ///< What an adapter adds.
  std::optional<HeadRows> rows{};  ///< Those that the parts are multiplied by; absent: each by all.
  /// The map without adapters, if the parts are multiplied by transposed rows.
  std::function<Tensor(const Tensor& x)> transposed{};
};

/// The result of the map called `weight` for the rows x: y, or, if any of the rows have adapters that change the map,
/// y with what they add. Without `map` it is linear, and y may be changed in place.
Tensor adapted(Pass& p, std::string_view weight, const Tensor& x, const Tensor& y,
               const std::optional<AddedSite>& added, const AdaptedMap& map = {});

}  // namespace vitrine
