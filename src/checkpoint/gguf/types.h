// Types of tensors in GGUF files: ggml's numbers and names, and our types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace vitrine {

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> dtype;   ///< Empty for a type that the engine cannot compute with.
  std::uint32_t file_type = 0;  ///< The general.file_type of files in which most weights have this type.
};

/// Returns null for an unknown number.
const GgmlType* find_ggml_type(std::uint32_t number);
/// Throws InternalError for a type that GGUF does not have.
const GgmlType& ggml_type_of(DType dtype);

/// A type's name in GGUF, or the like of it for types that GGUF does not have.
std::string_view shown_name(DType dtype);

}  // namespace vitrine
