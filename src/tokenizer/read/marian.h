// The tokenizer of Marian's translation models (OPUS-MT): two SentencePiece models, whose pieces have their ids in a
// vocab.json.
//
// Source: transformers, MarianTokenizer, without the optional normalization of punctuation by sacremoses. With
// SpecialTokens::apply, special tokens that are written in the text are recognized, a language code (`>>fra<<`) at the
// start of the text or after a special token is a token, and EOS is added. SpecialTokens::none treats all of them as
// text. Decoding replaces each ▁ by a space and omits special tokens.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Opens a folder with source.spm, target.spm and vocab.json. A tokenizer_config.json may name the special tokens; if
/// it sets `separate_vocabs`, the ids of target texts are those of target_vocab.json. The result encodes source texts;
/// target() encodes target texts. Throws BadInput if a file is missing, BadCheckpoint for a malformed file, Unsupported
/// for options of the SentencePiece library.
std::unique_ptr<const Tokenizer> load_marian_tokenizer(const std::string& folder);

/// Opens a folder of M2M-100: sentencepiece.bpe.model, whose pieces have their ids in vocab.json, followed by the
/// tokens of the languages (`__fr__`). A text begins with the token of `language`; "": that of the configuration, else
/// English. Throws the same, and BadInput for an unknown language.
std::unique_ptr<const Tokenizer> load_m2m100_tokenizer(const std::string& folder, const std::string& language);

}  // namespace vitrine
