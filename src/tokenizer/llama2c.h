// The tokenizer of llama2.c (.bin): pieces with scores, merged best score first, unknown characters as bytes.
//
// File, little endian: int32 max_token_length, then to the end of the file per token float32 score, int32 length,
// bytes. Ids: 0 <unk>, 1 BOS, 2 EOS, 3 to 258 the bytes <0x00> to <0xFF>, then pieces, in which a space is a plain
// space. Source of format and rule: karpathy/llama2.c, run.c (build_tokenizer, encode, decode).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Reads the tokenizer from the content of its file; nothing of `file` is kept. `path` names it in errors. Throws
/// BadCheckpoint on anything malformed.
std::unique_ptr<const Tokenizer> parse_llama2c_tokenizer(std::span<const std::byte> file, std::string_view path);

}  // namespace vitrine
