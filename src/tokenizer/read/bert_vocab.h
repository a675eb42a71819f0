// BERT's vocab.txt: a piece a line.
#pragma once

#include <string_view>

#include "tokenizer/algorithms/piece_table.h"

namespace vitrine {

/// The pieces of a file; the ids are the numbers of the lines, from 0. Blank lines have ids but are not pieces. Throws
/// BadCheckpoint if the file is malformed.
PieceTable parse_vocab_lines(std::string_view text, std::string_view path);

}  // namespace vitrine
