// The tokenizer of llama2.c (.bin): BPE that merges by score and spells unknown characters as bytes.
//
// Layout of the file, little endian: int32 max_token_length, then for each token float32 score, int32 length, bytes.
// Ids: 0 <unk>, 1 BOS, 2 EOS, 3 to 258 the bytes <0x00> to <0xFF>, then pieces, which contain plain spaces.
// Source: karpathy/llama2.c, run.c (build_tokenizer, encode, decode). run.c scans the whole text for each merge; the
// heap used here gives the same result in O(n log n).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Parses the contents of a file, which are not referenced afterwards. `path` names the file in errors. Throws
/// BadCheckpoint if the file is malformed.
std::unique_ptr<const Tokenizer> parse_llama2c_tokenizer(std::span<const std::byte> file, std::string_view path);

}  // namespace vitrine
