// The tokenizer of a SentencePiece `.model`, unigram or BPE: the ids that the SentencePiece library gives.
//
// Ours rather than Debian's library, which was measured (0.1.97, 1 MB of text): 233 bytes of memory per byte of input,
// 21 s for a run of unknown characters, a stack overflow on a huge piece.
//
// Special tokens under SpecialTokens::apply: BOS is put in front where the model defines one, EOS never. Control pieces
// and the unknown piece written in the text (`<s>`, `<bos>`) are recognized, the leftmost and longest first; the text
// between is encoded piece by piece, the dummy prefix only at the very start of the text, as transformers'
// LlamaTokenizer and GemmaTokenizer do with legacy=False. User-defined pieces (`<start_of_turn>`) are part of
// SentencePiece's own rule and found in any case.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(SentencePieceModel model);

}  // namespace vitrine
