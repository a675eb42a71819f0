// The form of a block in a file, so that nothing else is taken for it: after a power loss, a bit that the disk has
// lost, or a file of another name.
//
//   magic 8 bytes | name 32 | SHA-256 of the rest of the file 32 | size of the content 8, least significant first |
//   content
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/digest.h"

namespace vitrine {

/// A SHA-256 of all that determines the content of a block.
using BlockName = Sha256;

using BlockHeader = std::array<std::byte, 80>;

BlockHeader header_of(const BlockName& name, std::span<const std::byte> content);
/// Whether a file with this header and content is the block of that name.
bool is_block(const BlockName& name, const BlockHeader& header, std::span<const std::byte> content);

}  // namespace vitrine
