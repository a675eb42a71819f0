// Which part of a file of weights is its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vitrine {

/// The number of bytes with which the header of a safetensors or GGUF file ends, of which `first` are the first ones
/// that are known. If these are too few to say it, a larger number than they are: at most that many bytes are needed to
/// know more. What is no such file has no header beyond `first`; whoever reads it says what is wrong.
std::int64_t header_bytes(std::string_view path, std::span<const std::byte> first);

}  // namespace vitrine
