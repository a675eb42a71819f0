// What tells tokenizers apart: a number that files of tokens keep.
#pragma once

#include <cstdint>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// FNV-1a (64 bit) over the vocabulary and the ids of a text that exercises the rules. The same for one tokenizer in
/// two formats where both spell its pieces the same.
std::uint64_t tokenizer_fingerprint(const Tokenizer& tokenizer);

}  // namespace vitrine
