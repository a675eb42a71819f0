// What turns a word into ids: the models of tokenizer.json, BPE, Unigram, WordPiece and WordLevel.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/tokenizer_document.h"

namespace vitrine {

/// What one thread needs while it encodes; serves one model only.
struct SubwordWorkspace {
  /// The best way to end at a byte of the word.
  struct Node {
    double score;
    std::int32_t id = kNoId;
    std::int32_t begin = -1;  // where the last piece of that way begins
  };
  Bpe::Workspace bpe;
  std::vector<Node> nodes;
  std::vector<std::int32_t> ids;
};

/// Immutable.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the ids of `word`, which is valid UTF-8. Throws BadInput where it holds what the model cannot spell and
  /// there is no unk.
  virtual void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const = 0;
  virtual const PieceTable& pieces() const = 0;
};

/// Builds the model of `document`, whose tables are moved from. A missing type is inferred from the keys, as
/// `tokenizers` does. Throws BadCheckpoint where it is malformed, Unsupported for a type or option that is not known.
std::unique_ptr<const SubwordModel> parse_subword_model(TokenizerDocument& document, std::string_view where);

/// A BPE from pieces and merges as they are written. Throws BadCheckpoint where a merge names or makes what is no
/// piece.
Bpe make_bpe(PieceTable pieces, const WrittenMerges& merges, BpeOptions options, std::string_view where);
std::unique_ptr<const SubwordModel> make_bpe_model(Bpe bpe);

}  // namespace vitrine
