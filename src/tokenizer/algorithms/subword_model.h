// The models of tokenizer.json, which encode words: BPE, Unigram, WordPiece and WordLevel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/algorithms/best_path.h"
#include "tokenizer/algorithms/bpe.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/read/tokenizer_document.h"

namespace vitrine {

/// The memory of one thread. It belongs to one model, because its cache holds ids.
struct SubwordWorkspace {
  Bpe::Workspace bpe;
  BestPath<double> best_path;
};

/// Immutable.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the ids of `word`, which must be valid UTF-8. Throws BadInput if the model cannot spell it and has no unk.
  virtual void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const = 0;
  virtual const PieceTable& pieces() const = 0;
  /// How pieces are spelled within a word: what those after the first begin with, what the last one ends with, and
  /// whether one unknown piece is all of a run of unknown characters.
  struct Spelling {
    std::string continuing_prefix = {}, end_of_word_suffix = {};
    bool fuses_unknown = true;
  };
  virtual Spelling spelling() const { return {}; }
  /// The id of characters that are in no piece; kNoId or another negative number if there is none.
  virtual std::int32_t unknown() const = 0;
};

/// Builds the model of `document`, whose tables are moved into it. As in `tokenizers`, a missing type is inferred from
/// the keys. Throws BadCheckpoint if the model is malformed, Unsupported for an unknown type or option.
std::unique_ptr<const SubwordModel> parse_subword_model(TokenizerDocument& document, std::string_view where);

/// Throws BadCheckpoint if a merge or its result is not in the vocabulary.
std::unique_ptr<const SubwordModel> make_bpe_model(PieceTable pieces, const MergeList& merges, BpeOptions options,
                                                   std::string_view where);

}  // namespace vitrine
