// Trains byte pair encoding: repeatedly merges the most frequent pair of adjacent symbols into a new symbol.
//
// Source: Sennrich, Haddow, Birch (2016), arXiv 1508.07909, applied to bytes as in GPT-2. An index holds the 64-bit
// count of each pair and the words that contain it, and is updated incrementally: a merge visits only those words. A
// heap yields the most frequent pair; an outdated count is corrected when it reaches the top.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "tokenizer/algorithms/bpe.h"
#include "tokenizer/train/word_counts.h"

namespace vitrine {

/// Which of several equally frequent pairs is merged first.
enum class BpeTies {
  greater,     ///< the pair whose byte strings are greater, the left one compared first
  smaller_id,  ///< the pair whose ids are smaller, as in Hugging Face's trainer
};

/// The symbols with which training begins.
enum class BpeSymbols {
  bytes,       ///< all 256
  characters,  ///< those of the corpus, with the prefix "##" except at the start of a word: the trainer of WordPiece
};

struct BpeTraining {
  std::int64_t vocab_size = 0;  ///< At least the number of symbols and special tokens.
  BpeTies ties = BpeTies::greater;
  std::uint64_t min_frequency = 1;    ///< Less frequent pairs are not merged.
  std::vector<std::string> specials;  ///< They get the first ids, in this order.
  BpeSymbols symbols = BpeSymbols::bytes;
};

/// The special tokens, then the symbols, then the results of merges. Bytes are in the order of the byte-level alphabet.
/// Characters are sorted, first those of the whole corpus without a prefix, then those with "##".
struct TrainedBpe {
  std::vector<std::string> pieces;  ///< By id: bytes, the text of a special token, or a piece of WordPiece.
  std::size_t n_special = 0;
  std::vector<Bpe::Pair> merges;  ///< In order of rank.
};

/// The vocabulary is smaller than requested if no pair is left. As in Hugging Face's trainer, a merge whose result is
/// already a piece adds none. `report` receives the number of merges. Throws BadInput if the size of the vocabulary is
/// too small or too large for the format, or if a special token is empty, not UTF-8, repeated or equal to a piece;
/// OutOfCapacity if a count exceeds 64 bits.
TrainedBpe train_bpe(WordCounts words, const BpeTraining& options, const ReportProgress& report = {});

/// The bytes, sorted by their characters in the byte-level alphabet: '!' to '~' first.
std::vector<std::uint8_t> byte_level_order();

}  // namespace vitrine
