// Training byte pair encoding: the most frequent pair of adjacent symbols becomes a symbol, again and again.
//
// Source: Sennrich, Haddow, Birch (2016), arXiv 1508.07909, over bytes as in GPT-2. The index of pairs is kept, not
// made again: for each pair its 64-bit count and the words where it stood, so a merge visits those words and no others;
// the most frequent pair is on top of a heap whose counts are put right when they come up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "tokenizer/bpe.h"
#include "tokenizer/word_counts.h"

namespace vitrine {

/// Which of the pairs that are equally frequent is merged first.
enum class BpeTies {
  greater,     ///< the greater pair of byte strings, the left one compared first
  smaller_id,  ///< the smaller pair of ids, as Hugging Face's trainer
};

struct BpeTraining {
  std::int64_t vocab_size = 0;  ///< At least the special tokens and 256.
  BpeTies ties = BpeTies::greater;
  std::uint64_t min_frequency = 1;    ///< Pairs that stand less often are not merged.
  std::vector<std::string> specials;  ///< The first ids, in this order.
};

/// The special tokens, then the bytes in the order of the byte-level alphabet, then what merges made.
struct TrainedBpe {
  std::vector<std::string> pieces;  ///< Bytes, by id; of special tokens the text.
  std::size_t n_special = 0;
  std::vector<Bpe::Pair> merges;  ///< First merge first.
};

/// Fewer pieces come out where the corpus has no pair left. A merge whose result is a piece already makes no new one,
/// as in Hugging Face's trainer. `report` hears of merges. Throws BadInput for a vocabulary that is too small or too
/// large for the format, and for special tokens that cannot be told from pieces.
TrainedBpe train_bpe(WordCounts words, const BpeTraining& options, const ReportProgress& report = {});

/// The bytes in the order of the characters that stand for them in the byte-level alphabet: '!' to '~' first.
std::vector<std::uint8_t> byte_level_order();

}  // namespace vitrine
