// A parameter of the model: a view of the stored tensor.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/matrix_view.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Parameters are used as stored, without copies or folded offsets, so loading, inspection, training and saving all use
/// the same values. `shape` is the logical shape (`[out, in]` for a product), `view` the layout in the file. A vector
/// is one row.
struct Param {
  std::string name;         ///< The name in vitrine, such as `blocks.3.attn.wq.weight`.
  std::string stored_name;  ///< The name in the file.
  Shape shape;
  MatrixView view;

  bool present() const { return view.data != nullptr; }
};

/// The parameters that learn, their gradients and their moments are at the same places: counted in elements, one after
/// another, each parameter at a multiple of this number (64 bytes of bf16).
constexpr std::int64_t kParamAlignment = 32;

}  // namespace vitrine
