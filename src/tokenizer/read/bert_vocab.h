// BERT's vocab.txt, the vocabulary of a WordPiece tokenizer without a tokenizer.json: a piece on each line, whose id is
// the number of the line, from 0.
//
// Source: transformers, BertTokenizer.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Parses the contents of a vocab.txt and of the tokenizer_config.json next to it ("" if there is none):
/// `do_lower_case`, `strip_accents`, `tokenize_chinese_chars`, the names of the special tokens, `added_tokens_decoder`.
/// Throws BadCheckpoint if a file is malformed or a special token is not in the vocabulary, Unsupported for a
/// `tokenizer_class` with other rules.
std::unique_ptr<const Tokenizer> parse_bert_vocab(std::string_view vocab, std::string_view vocab_path,
                                                  std::string_view config, std::string_view config_path);

}  // namespace vitrine
