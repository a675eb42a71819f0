// A parameter of the model: the stored tensor, seen where it lies.
#pragma once

#include <string>

#include "tensor/matrix_view.h"
#include "tensor/tensor.h"

namespace vitrine {

/// What is loaded is what is inspected, trained and saved: no offset folded in, no copy made. `shape` is ours
/// (`[out, in]` for a product); the strides of `view` say how the file has it. Vectors are one row.
struct Param {
  std::string name;         ///< Ours, as in `blocks.3.attn.wq.weight`.
  std::string stored_name;  ///< The file's.
  Shape shape;
  MatrixView view;

  bool present() const { return view.data != nullptr; }
};

}  // namespace vitrine
