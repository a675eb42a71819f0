// The tokenizer of a SentencePiece `.model`, unigram or BPE, with the same ids as the SentencePiece library.
//
// vitrine does not use Debian's library: version 0.1.97, with 1 MB of text, needs 233 bytes of memory for each byte of
// input and 21 s for a run of unknown characters, and overflows the stack on a huge piece.
//
// With SpecialTokens::apply, BOS is added if the model defines one; EOS is never added. Control pieces and the unknown
// piece that are written in the text (`<s>`, `<bos>`) are recognized, leftmost and longest first. The texts between
// them are encoded separately, with the dummy prefix only at the very beginning, as in transformers' LlamaTokenizer and
// GemmaTokenizer with legacy=False. User-defined pieces (`<start_of_turn>`) are part of SentencePiece's rules and are
// always recognized.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/read/sentencepiece_model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(SentencePieceModel model);

}  // namespace vitrine
