// What adapters add to the result of a linear map (pass/adapter.h).
//
//   LoRA   z[t] = B · (s · A · x[t]),  y[t] += z[t]
//          dB[o, r] += Σ_t dz[t, o] · u[t, r]     u = s · A · x, dz = dy
//          dA[r, i] += Σ_t s · (Bᵀ dz[t])[r] · x[t, i],  dx[t] += Aᵀ · s · Bᵀ · dz[t]
//   DoRA   y[t, o] ← f[o] · (y[t, o] + z[t, o]),  f = m / ‖W + s · B · A‖
//          dz = f ⊙ dy,  the map's own dy = f ⊙ dy,  dm[o] += Σ_t dy[t, o] · (y[t, o] + z[t, o]) / ‖W + s · B · A‖[o]
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

/// The result of the map called `weight` for the rows x: y, or, if any of the rows have adapters that change the map,
/// y with what they add. Without `product` the map is linear and y may be changed in place; with one, its rows
/// `[n · out]` are the results of n parts of a row of x.
Tensor adapted(Pass& p, std::string_view weight, const Tensor& x, const Tensor& y,
               const std::optional<AddedSite>& added, const LowRankProduct& product = {});

}  // namespace vitrine
