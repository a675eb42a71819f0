#include "tokenizer/llama2c.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied from the file as they stand");

constexpr std::int32_t kBos = 1;
constexpr std::int32_t kEos = 2;
constexpr std::int32_t kFirstByte = 3;
constexpr std::int32_t kEndOfBytes = kFirstByte + 256;
constexpr std::int32_t kMaxPieceBytes = 65535;  // real files say 7 to 30
constexpr float kNoScore = -1e10F;              // where run.c starts its search: no score from here down is ever merged
constexpr std::size_t kMaxTextBytes = 1U << 30;  // symbols are numbered by int32

/// The pieces and scores of a file, checked.
struct Vocabulary {
  std::vector<std::string> pieces;
  std::vector<float> scores;
};

/// One symbol of the text while pairs are merged: a doubly linked list, by index, so that removal is O(1).
struct Symbol {
  std::int32_t id;
  std::int32_t previous;
  std::int32_t next;
};

constexpr std::int32_t kNone = -1;  // no neighbour, no id (that of a symbol which was merged into its left neighbour)

/// A pair that may be merged, as it was when it was found: stale as soon as one of its symbols has changed.
struct Merge {
  float score;
  std::int32_t left;
  std::int32_t left_id;
  std::int32_t right_id;
  std::int32_t merged_id;
};

/// The heap's order: the best score is on top, the leftmost among equals. Symbols keep the order of their indices.
struct ComesLater {
  bool operator()(const Merge& a, const Merge& b) const {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }
};

class Llama2cTokenizer final : public Tokenizer {
 public:
  explicit Llama2cTokenizer(Vocabulary vocabulary);

  std::string piece(std::int32_t id) const override { return pieces_[index(id)]; }
  std::string bytes(std::int32_t id) const override;
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()); }
  std::optional<std::int32_t> bos() const override { return kBos; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

  /// The id of the piece that the pair makes, kNone where it is not to be merged. `concatenation` is scratch.
  std::int32_t merged_id(std::int32_t left, std::int32_t right, std::string& concatenation) const;

 private:
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy,
                                   EncodingRecorder* recorder) const override;
  std::size_t index(std::int32_t id) const;
  void append_character(std::string_view character, std::vector<std::int32_t>& ids) const;
  std::vector<std::int32_t> merged(const std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const;

  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // of the pieces, which never move
  std::size_t longest_ = 0;                                 // bytes of the longest piece
  std::vector<std::int32_t> stop_ids_ = {kBos, kEos};       // a story is followed by the BOS of the next one
};

/// Remembers what merged_id said: text repeats itself, and a pair of ids is found faster than a concatenated string.
class PairFinder {
 public:
  /// For a text of `n_symbols`: a short one takes little memory.
  PairFinder(const Llama2cTokenizer& tokenizer, std::size_t n_symbols)
      : tokenizer_(tokenizer), cache_bits_(std::clamp(static_cast<int>(std::bit_width(n_symbols)), 4, 14)) {}

  /// The id of the piece that the pair makes, kNone where it is not to be merged.
  std::int32_t find(std::int32_t left, std::int32_t right) {
    const std::uint64_t key =
        (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
    // Direct-mapped: an entry that is in the way is overwritten, which bounds the memory.
    Entry& entry = cache_[(key * 0x9E3779B97F4A7C15ULL) >> (64 - cache_bits_)];
    if (entry.key != key) entry = {key, tokenizer_.merged_id(left, right, concatenation_)};
    return entry.id;
  }

 private:
  struct Entry {
    std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // no pair: ids are not negative
    std::int32_t id = kNone;
  };

  const Llama2cTokenizer& tokenizer_;
  std::string concatenation_;
  int cache_bits_;
  std::vector<Entry> cache_ = std::vector<Entry>(std::size_t{1} << cache_bits_);
};

Llama2cTokenizer::Llama2cTokenizer(Vocabulary vocabulary)
    : pieces_(std::move(vocabulary.pieces)), scores_(std::move(vocabulary.scores)) {
  ids_.reserve(pieces_.size());
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    ids_.emplace(pieces_[id], static_cast<std::int32_t>(id));  // keeps the lowest id of a piece that stands twice
    longest_ = std::max(longest_, pieces_[id].size());
  }
}

std::size_t Llama2cTokenizer::index(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw BadInput("tokenizer", "expected ids from 0 to {}, got {}", vocab_size() - 1, id);
  }
  return static_cast<std::size_t>(id);
}

std::vector<std::int32_t> Llama2cTokenizer::encode(std::string_view text, SpecialTokens policy,
                                                   EncodingRecorder* recorder) const {
  if (text.size() > kMaxTextBytes) {
    throw BadInput("tokenizer", "expected at most {} bytes of text, got {}", kMaxTextBytes, text.size());
  }
  std::vector<std::int32_t> ids, result;
  ids.reserve(text.size() + 2);
  if (recorder != nullptr && !text.empty()) recorder->part(text);
  const std::string_view whole = text;
  if (policy == SpecialTokens::apply) ids.push_back(kBos);
  if (!text.empty()) append_character(" ", ids);  // the dummy prefix: part of the normalization, so it always stands
  while (!text.empty()) {
    // As run.c cuts: one byte of any kind and the continuation bytes behind it, four bytes at most.
    std::size_t length = 1;
    while (length < 4 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) ++length;
    append_character(text.substr(0, length), ids);
    text.remove_prefix(length);
  }
  record_word(recorder, whole, result, [&] { result = merged(ids, recorder); });
  return result;
}

void Llama2cTokenizer::append_character(std::string_view character, std::vector<std::int32_t>& ids) const {
  const auto found = ids_.find(character);
  if (found != ids_.end()) {
    ids.push_back(found->second);
    return;
  }
  for (char byte : character) ids.push_back(static_cast<unsigned char>(byte) + kFirstByte);
}

std::int32_t Llama2cTokenizer::merged_id(std::int32_t left, std::int32_t right, std::string& concatenation) const {
  const std::string& a = pieces_[static_cast<std::size_t>(left)];
  const std::string& b = pieces_[static_cast<std::size_t>(right)];
  if (a.size() + b.size() > longest_) return kNone;
  concatenation.assign(a).append(b);
  const auto found = ids_.find(concatenation);
  if (found == ids_.end() || scores_[static_cast<std::size_t>(found->second)] <= kNoScore) return kNone;
  return found->second;
}

/// Merges the adjacent pair with the best score, the leftmost among equals, until no pair is in the vocabulary. run.c
/// searches the whole text for each merge; a heap of candidates finds the same pair in O(log n).
std::vector<std::int32_t> Llama2cTokenizer::merged(const std::vector<std::int32_t>& ids,
                                                   EncodingRecorder* recorder) const {
  const auto n = static_cast<std::int32_t>(ids.size());
  PairFinder pairs(*this, ids.size());
  std::vector<Symbol> symbols(ids.size());
  const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  const auto candidate = [&](std::int32_t left) -> std::optional<Merge> {
    if (left == kNone || at(left).next == kNone) return std::nullopt;
    const std::int32_t left_id = at(left).id, right_id = at(at(left).next).id;
    const std::int32_t id = pairs.find(left_id, right_id);
    if (id == kNone) return std::nullopt;
    return Merge{scores_[static_cast<std::size_t>(id)], left, left_id, right_id, id};
  };

  for (std::int32_t i = 0; i < n; ++i) at(i) = {ids[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : kNone};
  if (recorder != nullptr) {
    recorder->rule(Explanation::Word::Rule::merges_by_score);
    recorder->begin_symbols();
    for (const std::int32_t id : ids) recorder->symbol(pieces_[static_cast<std::size_t>(id)]);
  }
  std::vector<Merge> first;
  for (std::int32_t i = 0; i < n; ++i) {
    if (const auto merge = candidate(i)) first.push_back(*merge);
  }
  std::priority_queue<Merge, std::vector<Merge>, ComesLater> heap(ComesLater{}, std::move(first));

  while (!heap.empty()) {
    const Merge merge = heap.top();
    heap.pop();
    Symbol& left = at(merge.left);
    // A removed symbol has no id, so its candidates fail here; one whose neighbour changed fails on the neighbour's id.
    if (left.id != merge.left_id || left.next == kNone || at(left.next).id != merge.right_id) continue;
    Symbol& right = at(left.next);
    if (recorder != nullptr) {
      const auto text = [&](std::int32_t id) { return std::string_view(pieces_[static_cast<std::size_t>(id)]); };
      recorder->merge(static_cast<double>(merge.score), static_cast<std::size_t>(merge.left), text(merge.left_id),
                      text(merge.right_id), text(merge.merged_id));
    }
    left.id = merge.merged_id;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) at(left.next).previous = merge.left;
    for (std::int32_t changed : {left.previous, merge.left}) {
      if (const auto found = candidate(changed)) heap.push(*found);
    }
  }

  std::vector<std::int32_t> result;
  for (std::int32_t i = n > 0 ? 0 : kNone; i != kNone; i = at(i).next) result.push_back(at(i).id);
  return result;
}

std::string Llama2cTokenizer::bytes(std::int32_t id) const {
  const std::string& piece = pieces_[index(id)];
  if (id < kFirstByte) return "";
  if (id < kEndOfBytes) return std::string(1, static_cast<char>(id - kFirstByte));
  return piece;
}

std::string Llama2cTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  std::string text = bytes(id);
  // The dummy prefix, undone. Only the piece's own space: the byte token <0x20> is not spelled with one.
  if (previous == kBos && id >= kEndOfBytes && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

/// Takes numbers and strings off the front of the file; each length is held against the bytes that are left.
class Reader {
 public:
  Reader(std::span<const std::byte> rest, std::string_view path) : rest_(rest), path_(path) {}

  bool at_end() const { return rest_.empty(); }

  template <class T>
  T number(std::string_view what) {
    T value;
    const std::span<const std::byte> bytes = take(sizeof(T), what);
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  std::string string(std::size_t size, std::string_view what) {
    const std::span<const std::byte> bytes = take(size, what);
    return bytes.empty() ? std::string() : std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  std::span<const std::byte> take(std::size_t size, std::string_view what) {
    if (size > rest_.size()) {
      throw BadCheckpoint(path_, "expected {} bytes of {}, got {}: the file is cut short", size, what, rest_.size());
    }
    const std::span<const std::byte> front = rest_.first(size);
    rest_ = rest_.subspan(size);
    return front;
  }

  std::span<const std::byte> rest_;
  std::string_view path_;
};

Vocabulary read_vocabulary(std::span<const std::byte> file, std::string_view path) {
  Reader reader(file, path);
  const auto max_length = reader.number<std::int32_t>("max_token_length");
  if (max_length < 1 || max_length > kMaxPieceBytes) {
    throw BadCheckpoint(path, "expected a max_token_length from 1 to {}, got {}", kMaxPieceBytes, max_length);
  }
  Vocabulary vocabulary;
  while (!reader.at_end()) {
    const std::size_t id = vocabulary.pieces.size();
    if (id > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      throw BadCheckpoint(path, "expected at most 2^31 tokens");
    }
    const auto score = reader.number<float>("score");
    if (std::isnan(score)) throw BadCheckpoint(path, "expected a score for token {}, got nan", id);
    const auto length = reader.number<std::int32_t>("length");
    if (length < 0 || length > max_length) {
      throw BadCheckpoint(path, "expected a length from 0 to max_token_length {} for token {}, got {}", max_length, id,
                          length);
    }
    vocabulary.scores.push_back(score);
    vocabulary.pieces.push_back(reader.string(static_cast<std::size_t>(length), "piece"));
  }
  return vocabulary;
}

}  // namespace

std::unique_ptr<const Tokenizer> parse_llama2c_tokenizer(std::span<const std::byte> file, std::string_view path) {
  Vocabulary vocabulary = read_vocabulary(file, path);
  if (vocabulary.pieces.size() < static_cast<std::size_t>(kEndOfBytes)) {
    throw BadCheckpoint(path, "expected at least {} tokens (3 control tokens and 256 bytes), got {}", kEndOfBytes,
                        vocabulary.pieces.size());
  }
  for (std::int32_t id = kFirstByte; id < kEndOfBytes; ++id) {
    const std::string expected = fmt::format("<0x{:02X}>", id - kFirstByte);
    // Without it a character outside the vocabulary would silently become some other piece.
    if (vocabulary.pieces[static_cast<std::size_t>(id)] != expected) {
      throw BadCheckpoint(path, "expected the byte {} as token {}, got another piece", expected, id);
    }
  }
  return std::make_unique<Llama2cTokenizer>(std::move(vocabulary));
}

}  // namespace vitrine
