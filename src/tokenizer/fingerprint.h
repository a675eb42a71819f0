// A number that identifies a tokenizer; files of tokens store it.
#pragma once

#include <cstdint>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// FNV-1a (64 bit) of the vocabulary and of the ids of a text that exercises the rules. A tokenizer in two formats has
/// the same fingerprint if both spell its pieces the same.
std::uint64_t tokenizer_fingerprint(const Tokenizer& tokenizer);

}  // namespace vitrine
