// Types of tensors in GGUF files: ggml's numbers and names, and ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace vitrine {

/// ggml's name, as in `Q4_K`; `type 99` for a number that is not known.
std::string ggml_name(std::uint32_t type);
/// Nothing for a type that products cannot read.
std::optional<DType> dtype_of_ggml(std::uint32_t type);
/// Throws InternalError for a type that GGUF files do not have.
std::uint32_t ggml_type_of(DType dtype);
/// What general.file_type says where most weights are of this type.
std::uint32_t ggml_file_type(DType dtype);

}  // namespace vitrine
