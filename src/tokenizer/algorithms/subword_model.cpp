#include "tokenizer/algorithms/subword_model.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "tokenizer/algorithms/unigram.h"
#include "tokenizer/algorithms/wordpiece.h"
#include "tokenizer/read/json_fields.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxSpacedMergeBytes = 1024;
constexpr std::int32_t kMaxTriePieces = 1 << 19;  // twice the largest published; a trie takes up to 60 bytes per byte
constexpr std::size_t kMaxTrieBytes = std::size_t{4} << 20;

void check_trie_size(const PieceTable& pieces, std::string_view where) {
  std::size_t n_bytes = 0;
  for (std::int32_t id = 0; id < pieces.size(); ++id) n_bytes += pieces.piece(id).size();
  if (pieces.n_pieces() > kMaxTriePieces || n_bytes > kMaxTrieBytes) {
    throw Unsupported(where, "more than {} pieces or {} bytes of them are not supported, got {} and {}", kMaxTriePieces,
                      kMaxTrieBytes, pieces.n_pieces(), n_bytes);
  }
}

class BpeModel final : public SubwordModel {
 public:
  explicit BpeModel(Bpe bpe) : bpe_(std::move(bpe)) {}
  void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const override {
    bpe_.encode(word, workspace.bpe, ids);
  }
  const PieceTable& pieces() const override { return bpe_.pieces(); }
  std::int32_t unknown() const override { return bpe_.options().unk_id; }
  Spelling spelling() const override {
    const BpeOptions& o = bpe_.options();
    return {o.continuing_subword_prefix, o.end_of_word_suffix, o.fuse_unk};
  }

 private:
  Bpe bpe_;
};

/// kNoId if `unk` is empty, kMissingUnk if it is not in the vocabulary.
std::int32_t unk_id(const std::string& unk, const PieceTable& pieces) {
  if (unk.empty()) return kNoId;
  const std::int32_t id = pieces.find(unk);
  return id == kNoId ? kMissingUnk : id;
}

std::unique_ptr<const SubwordModel> parse_bpe(TokenizerDocument& document, const JsonFields& fields,
                                              std::string_view where) {
  fields.allow({"type", "vocab", "merges", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                "fuse_unk", "byte_fallback", "ignore_merges"});
  const Json* dropout = fields.find("dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0)) {
    throw Unsupported(where, "dropout of the model is not supported: ids would be random");
  }
  if (!document.has_merges) throw BadCheckpoint(where, "expected a list of merges in the model");
  BpeOptions options;
  options.unk_id = unk_id(fields.string("unk_token", ""), document.pieces);
  options.continuing_subword_prefix = fields.string("continuing_subword_prefix", "");
  options.end_of_word_suffix = fields.string("end_of_word_suffix", "");
  options.fuse_unk = fields.boolean("fuse_unk", false);
  options.byte_fallback = fields.boolean("byte_fallback", false);
  options.ignore_merges = fields.boolean("ignore_merges", false);
  return make_bpe_model(std::move(document.pieces), document.merges, std::move(options), where);
}

std::unique_ptr<const SubwordModel> parse_unigram(TokenizerDocument& document, const JsonFields& fields,
                                                  std::string_view where) {
  fields.allow({"type", "vocab", "unk_id", "byte_fallback"});
  if (!document.is_scored) throw BadCheckpoint(where, "expected a list of [piece, score] as the vocabulary");
  check_trie_size(document.pieces, where);
  std::int32_t unk = kNoId;
  if (fields.find("unk_id") != nullptr) {
    const std::int64_t id = fields.integer("unk_id");
    if (id >= document.pieces.size()) {
      throw BadCheckpoint(where, "expected an unk_id below {}, got {}", document.pieces.size(), id);
    }
    unk = static_cast<std::int32_t>(id);
  }
  return std::make_unique<Unigram>(std::move(document.pieces), std::move(document.scores), unk,
                                   fields.boolean("byte_fallback", false));
}

std::unique_ptr<const SubwordModel> parse_wordpiece(TokenizerDocument& document, const JsonFields& fields) {
  check_trie_size(document.pieces, fields.where());
  fields.allow({"type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"});
  const std::int32_t unk = unk_id(fields.string("unk_token", "[UNK]"), document.pieces);
  return std::make_unique<WordPiece>(std::move(document.pieces), unk, fields.string("continuing_subword_prefix", "##"),
                                     fields.integer("max_input_chars_per_word", 100));
}

std::unique_ptr<const SubwordModel> parse_wordlevel(TokenizerDocument& document, const JsonFields& fields) {
  fields.allow({"type", "vocab", "unk_token"});
  const std::int32_t unk = unk_id(fields.string("unk_token", "<unk>"), document.pieces);
  return std::make_unique<WordLevel>(std::move(document.pieces), unk);
}

std::string infer_type(const TokenizerDocument& document, const JsonFields& fields, std::string_view where) {
  if (fields.find("type") != nullptr) return fields.string("type");
  if (document.has_merges) return "BPE";
  if (document.is_scored) return "Unigram";
  if (fields.find("continuing_subword_prefix") != nullptr) return "WordPiece";
  if (fields.find("unk_token") != nullptr) return "WordLevel";
  throw Unsupported(where, "the model has no type, and its keys match no known type");
}

/// Splits a line with several spaces in the only way that gives two pieces whose concatenation is a piece. (Copies of
/// Llama 2's file in which other spaces became U+0020 have such merges; `tokenizers` 0.23 refuses them.)
MergeList::Pair split_merge(std::string_view line, const PieceTable& pieces, std::string_view where) {
  std::vector<MergeList::Pair> ways;
  if (line.size() > kMaxSpacedMergeBytes) throw BadCheckpoint(where, "a merge has more than one space: \"{}\"", line);
  for (std::size_t i = line.find(' '); i != line.npos; i = line.find(' ', i + 1)) {
    const MergeList::Pair way = {line.substr(0, i), line.substr(i + 1)};
    const bool are_pieces = pieces.find(way.left) != kNoId && pieces.find(way.right) != kNoId;
    if (are_pieces && pieces.find(std::string(way.left).append(way.right)) != kNoId) ways.push_back(way);
  }
  if (ways.size() == 1) return ways.front();
  throw BadCheckpoint(where, "expected one way to read the merge \"{}\" as two pieces, got {}", line, ways.size());
}

}  // namespace

std::unique_ptr<const SubwordModel> make_bpe_model(PieceTable pieces, const MergeList& merges, BpeOptions options,
                                                   std::string_view where) {
  std::vector<Bpe::Pair> pairs;
  pairs.reserve(merges.size());
  merges.for_each([&](MergeList::Pair merge) {
    if (merge.right.empty()) merge = split_merge(merge.left, pieces, where);
    const auto id = [&](std::string_view piece) {
      const std::int32_t found = pieces.find(piece);
      if (found == kNoId) {
        throw BadCheckpoint(where, "merge {} has \"{}\", which is not in the vocabulary", pairs.size(), piece);
      }
      return found;
    };
    pairs.push_back({id(merge.left), id(merge.right)});
  });
  return std::make_unique<BpeModel>(Bpe(std::move(pieces), pairs, std::move(options), where));
}

std::unique_ptr<const SubwordModel> parse_subword_model(TokenizerDocument& document, std::string_view where) {
  const JsonFields root(document.rest, "the tokenizer", where);
  const JsonFields fields(root.at("model"), "the model", where);
  if (!document.has_vocab) throw BadCheckpoint(where, "expected a vocabulary in the model");
  const std::string type = infer_type(document, fields, where);
  if (type == "Unigram") return parse_unigram(document, fields, where);
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel") {
    throw Unsupported(where, "the model \"{}\" is not supported", type);
  }
  if (document.is_scored) throw BadCheckpoint(where, "expected an object of pieces and ids as the vocabulary");
  if (type == "BPE") return parse_bpe(document, fields, where);
  return type == "WordPiece" ? parse_wordpiece(document, fields) : parse_wordlevel(document, fields);
}

}  // namespace vitrine
