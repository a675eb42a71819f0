// Converts a SentencePiece `.model` to the form of a tokenizer.json, as transformers does for a folder that has no
// tokenizer.json.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/read/sentencepiece_model.h"
#include "tokenizer/read/tokenizer_classes.h"
#include "tokenizer/read/tokenizer_document.h"
#include "tokenizer/read/tokenizer_folder.h"

namespace vitrine {

constexpr std::int64_t kUsualExtraIds = 100;  ///< "extra_ids" of T5.
constexpr std::int64_t kUsualOffset = 103;    ///< "offset" of Pegasus.

/// The special tokens that T5 and Pegasus add by number.
std::string extra_id(std::int64_t i);
std::string unk_piece(std::int64_t i);

/// The vocabulary and the merges that a class makes of the model. Throws BadCheckpoint.
TokenizerDocument class_document(const SentencePieceModel& model, const TokenizerClass& rules,
                                 const JsonFields& config);

/// The whole tokenizer of a folder whose class has no pipeline of its own: that of the model.
TokenizerDocument backend_document(const SentencePieceModel& model, const TokenizerFolder& folder);

}  // namespace vitrine
