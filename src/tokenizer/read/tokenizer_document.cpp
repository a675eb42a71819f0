#include "tokenizer/read/tokenizer_document.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "tokenizer/algorithms/bpe.h"

namespace vitrine {
namespace {

/// Parses a number as `tokenizers` does. serde_json rounds twice, so the last bit may differ from the nearest double,
/// and this bit may decide between two paths of a unigram model. `text` must be a valid JSON number with a fraction or
/// an exponent. Source: serde-rs/json, src/de.rs (parse_any_number, f64_from_parts).
double serde_double(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::uint64_t significand = 0;
  int exponent = 0;
  bool in_fraction = false, is_full = false;  // full: no more digits fit
  std::size_t i = negative ? 1 : 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      in_fraction = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(text[i] - '0');
    is_full = is_full || significand > (std::numeric_limits<std::uint64_t>::max() - digit) / 10;
    if (!is_full) significand = significand * 10 + digit;
    if (is_full != in_fraction) exponent += in_fraction ? -1 : 1;
  }
  if (i < text.size()) exponent += std::atoi(std::string(text.substr(i + 1)).c_str());
  auto value = static_cast<double>(significand);
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  if (exponent > 308) exponent = 309;
  value = exponent < 0 ? value / math::pow(10.0, -exponent) : value * math::pow(10.0, exponent);
  return negative ? -value : value;
}

/// Handles the events of the two large tables and leaves the others to JsonBuilder.
class Reader final : public JsonBuilder {
 public:
  enum class File { tokenizer, vocab };
  Reader(std::string_view where, File file) : JsonBuilder(where), file_(file) {}

  TokenizerDocument finish() {
    document_.rest = take();
    return std::move(document_);
  }

  bool null() override { return table_ == Table::none ? JsonBuilder::null() : wrong(); }
  bool boolean(bool value) override { return table_ == Table::none ? JsonBuilder::boolean(value) : wrong(); }
  bool number_integer(number_integer_t value) override {
    return table_ == Table::none ? JsonBuilder::number_integer(value) : number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return table_ == Table::none ? JsonBuilder::number_unsigned(value) : number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return table_ == Table::none ? JsonBuilder::number_float(value, text) : number(serde_double(text));
  }
  bool string(string_t& value) override;
  bool start_object(std::size_t size) override;
  bool start_array(std::size_t size) override;
  bool end_object() override;
  bool end_array() override;
  bool key(string_t& name) override;

 private:
  enum class Table { none, vocab, scored_vocab, merges };

  [[noreturn]] bool wrong() const {
    throw BadCheckpoint(where(), "expected {}",
                        table_ == Table::vocab          ? "an id for each piece of the vocabulary"
                        : table_ == Table::scored_vocab ? "[piece, score] for each piece of the vocabulary"
                                                        : "\"left right\" or [left, right] for each merge");
  }
  bool number(double value);
  void add_piece(std::string_view piece, double id);

  File file_;
  TokenizerDocument document_;
  std::string outer_key_, inner_key_;  // the current keys at depths 1 and 2
  Table table_ = Table::none;
  bool in_entry_ = false;      // inside the [ ] of an entry
  std::string piece_, other_;  // of the entry
  int n_parts_ = 0;            // parts of the entry so far
};

bool Reader::key(string_t& name) {
  if (table_ == Table::vocab) {
    piece_ = std::move(name);
    n_parts_ = 1;
    return true;
  }
  if (depth() == 1) outer_key_ = name;
  if (depth() == 2) inner_key_ = name;
  return JsonBuilder::key(name);
}

bool Reader::start_object(std::size_t size) {
  if (table_ != Table::none) wrong();
  const bool is_vocab =
      file_ == File::vocab ? depth() == 0 : depth() == 2 && outer_key_ == "model" && inner_key_ == "vocab";
  if (!is_vocab) return JsonBuilder::start_object(size);
  table_ = Table::vocab;
  document_.has_vocab = true;
  return add(nullptr);
}

bool Reader::end_object() {
  if (table_ == Table::none) return JsonBuilder::end_object();
  table_ = Table::none;
  return true;
}

bool Reader::start_array(std::size_t size) {
  if (table_ == Table::none) {
    const bool in_model = file_ == File::tokenizer && depth() == 2 && outer_key_ == "model";
    if (!in_model || (inner_key_ != "vocab" && inner_key_ != "merges")) return JsonBuilder::start_array(size);
    const bool is_vocab = inner_key_ == "vocab";
    table_ = is_vocab ? Table::scored_vocab : Table::merges;
    (is_vocab ? document_.has_vocab : document_.has_merges) = true;
    document_.is_scored |= is_vocab;
    return add(nullptr);
  }
  if (table_ == Table::vocab || in_entry_) wrong();
  in_entry_ = true;
  n_parts_ = 0;
  return true;
}

bool Reader::end_array() {
  if (table_ == Table::none) return JsonBuilder::end_array();
  if (!in_entry_) {
    table_ = Table::none;
    return true;
  }
  if (n_parts_ != 2) wrong();
  if (table_ == Table::merges) document_.merges.add(piece_, other_);
  in_entry_ = false;
  return true;
}

bool Reader::string(string_t& value) {
  if (table_ == Table::none) return JsonBuilder::string(value);
  if (table_ == Table::merges) {
    if (document_.merges.size() >= MergeTable::kMaxMerges) {
      throw BadCheckpoint(where(), "expected at most {} merges", MergeTable::kMaxMerges);
    }
    if (!in_entry_) {
      if (!value.starts_with("#version")) add_merge_line(value, document_.merges, where());
      return true;
    }
    (n_parts_ == 0 ? piece_ : other_) = std::move(value);
  } else {
    if (table_ == Table::vocab || !in_entry_ || n_parts_ != 0) wrong();
    piece_ = std::move(value);
  }
  ++n_parts_;
  return true;
}

bool Reader::number(double value) {
  if (table_ == Table::vocab) {
    add_piece(piece_, value);
    return true;
  }
  if (table_ != Table::scored_vocab || !in_entry_ || n_parts_ != 1 || !std::isfinite(value)) wrong();
  if (document_.scores.size() >= kMaxScoredPieces) {
    throw Unsupported(where(), "more than {} pieces with scores are not supported", kMaxScoredPieces);
  }
  add_piece(piece_, static_cast<double>(document_.pieces.size()));
  document_.scores.push_back(value);
  ++n_parts_;
  return true;
}

void Reader::add_piece(std::string_view piece, double id) {
  if (!(id >= 0 && id <= PieceTable::kMaxId) || id != std::floor(id)) {
    throw BadCheckpoint(where(), "expected an id from 0 to {} for \"{}\", got {}", PieceTable::kMaxId, piece, id);
  }
  const auto number = static_cast<std::int32_t>(id);
  // A list may contain a piece twice: the trainer of `tokenizers` writes such lists if a special token is also a piece.
  if (document_.pieces.add(piece, number, table_ == Table::scored_vocab)) return;
  if (document_.pieces.contains(number)) {
    throw BadCheckpoint(where(), "id {} appears twice in the vocabulary: \"{}\" and \"{}\"", number,
                        document_.pieces.piece(number), piece);
  }
  throw BadCheckpoint(where(), "\"{}\" appears twice in the vocabulary", piece);
}

TokenizerDocument read(std::string_view text, std::string_view where, Reader::File file) {
  if (text.size() > kMaxTokenizerBytes) {
    throw Unsupported(where, "a tokenizer of more than {} bytes is not supported, got {}", kMaxTokenizerBytes,
                      text.size());
  }
  Reader reader(where, file);
  reader.parse(text);
  return reader.finish();
}

}  // namespace

void MergeList::add(std::string_view left, std::string_view right) {
  bytes_.append(left).append(right);
  sizes_.push_back({static_cast<std::uint32_t>(left.size()), static_cast<std::uint32_t>(right.size())});
}

void add_merge_line(std::string_view line, MergeList& merges, std::string_view where) {
  const std::size_t space = line.find(' ');
  if (space == line.npos) {
    throw BadCheckpoint(where, "expected two pieces with a space between them in merge {}, got \"{}\"", merges.size(),
                        line);
  }
  if (line.find(' ', space + 1) != line.npos) return merges.add(line, "");
  merges.add(line.substr(0, space), line.substr(space + 1));
}

TokenizerDocument parse_tokenizer_document(std::string_view text, std::string_view where) {
  return read(text, where, Reader::File::tokenizer);
}

PieceTable parse_vocab_json(std::string_view text, std::string_view where) {
  TokenizerDocument document = read(text, where, Reader::File::vocab);
  if (!document.has_vocab) throw BadCheckpoint(where, "expected an object of pieces and their ids");
  return std::move(document.pieces);
}

}  // namespace vitrine
