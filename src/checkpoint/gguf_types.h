// Types of tensors in GGUF files: ggml's numbers and names, and our types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace vitrine {

/// ggml's name, such as `Q4_K`; `type 99` for an unknown number.
std::string ggml_name(std::uint32_t type);
/// Nothing for a type that the engine cannot compute with.
std::optional<DType> dtype_of_ggml(std::uint32_t type);
/// Throws InternalError for a type that GGUF does not have.
std::uint32_t ggml_type_of(DType dtype);
/// The general.file_type of files in which most weights have this type.
std::uint32_t ggml_file_type(DType dtype);

}  // namespace vitrine
