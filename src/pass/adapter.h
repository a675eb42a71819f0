// Low-rank adapters: small matrices that change the linear maps of a pass. The model is not changed.
//
//   LoRA   y = x · Wᵀ + s · (x · Aᵀ) · Bᵀ                       A [r, in], B [out, r]
//   DoRA   y = m / ‖W + s · B · A‖ ⊙ the same                   m [out]; ‖·‖ is the norm of each row
//
// Sources: Hu et al. 2021; Liu et al. 2024 (DoRA); huggingface/peft, tuners/lora. In the backward of DoRA the norms are
// constants, as in peft.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/param.h"

namespace vitrine {

/// DoRA's magnitudes, and the norms of the rows: ‖W + s · B · A‖² = squares + 2 s · products + s² · added_squares.
struct Magnitudes {
  Param vector;  ///< m `[out]`
  std::vector<double> squares, products, added_squares;

  /// m / ‖W + s · B · A‖ of each row.
  std::vector<float> factors(const float* m, double s) const;
  double norm(std::size_t row, double s) const;
};

/// What an adapter does to one linear map.
struct LowRank {
  std::shared_ptr<const Param> a;  ///< `[r, in]`. Maps that a checkpoint stores as one tensor share it.
  Param b;                         ///< `[out, r]`
  double scale = 1;                ///< s
  std::optional<Magnitudes> magnitudes{};

  std::int64_t rank() const { return a->shape[0]; }
};

/// A number that no other adapter or control vector of the process has, also after these no longer exist. A copy of an
/// object has the number of the original.
std::uint64_t new_identity();

/// The low-rank matrices of an adapter, by the name of the weight that they belong to: `blocks.3.attn.wq.weight`.
struct Adapter {
  std::map<std::string, LowRank, std::less<>> maps;
  std::vector<std::shared_ptr<const void>> storage;  ///< Owns the memory of the matrices.
  std::uint64_t identity = new_identity();

  /// Null if the adapter does not change the map.
  const LowRank* find(std::string_view weight) const {
    const auto it = maps.find(weight);
    return it != maps.end() ? &it->second : nullptr;
  }
};

/// An adapter in use. `scale` multiplies s.
struct AppliedAdapter {
  std::shared_ptr<const Adapter> adapter;
  double scale = 1;

  bool operator==(const AppliedAdapter&) const = default;
};

/// Applied in this order. A view: the list outlives the pass.
using AppliedAdapters = std::span<const AppliedAdapter>;

}  // namespace vitrine
