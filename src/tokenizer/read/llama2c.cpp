#include "tokenizer/read/llama2c.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/byte_reader.h"
#include "tokenizer/algorithms/merge_by_heap.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::int32_t kBos = 1;
constexpr std::int32_t kEos = 2;
constexpr std::int32_t kFirstByte = 3;
constexpr std::int32_t kEndOfBytes = kFirstByte + 256;
constexpr std::int32_t kMaxLength = 65535;  // published files have 7 to 30
constexpr float kNoScore = -1e10F;          // the start of run.c's search for the best score; never merged

/// The pieces and scores of a file, checked.
struct Vocabulary {
  std::vector<std::string> pieces;
  std::vector<float> scores;
};

class Llama2cTokenizer final : public Tokenizer {
 public:
  explicit Llama2cTokenizer(Vocabulary vocabulary);

  std::string piece(std::int32_t id) const override { return pieces_[checked_index(id)]; }
  std::string bytes(std::int32_t id) const override;
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()); }
  std::optional<std::int32_t> bos() const override { return kBos; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

  /// `merged` is kNoId if the pair is not merged. `concatenation` is scratch.
  BpeMerge find_merge(std::int32_t left, std::int32_t right, std::string& concatenation) const;

 private:
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                   EncodingRecorder* recorder) const override;
  void append_character(std::string_view character, std::vector<std::int32_t>& ids) const;
  void merge(std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const;

  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views of pieces_
  std::size_t longest_ = 0;                                 // bytes of the longest piece
  std::vector<std::int32_t> stop_ids_ = {kBos, kEos};       // the BOS of the next story also ends a story
};

/// A direct-mapped cache of find_merge: pairs repeat, and a pair of ids is found faster than a concatenated string.
class MergeFinder {
 public:
  /// For a text of `n_symbols`, so that a short one takes little memory.
  MergeFinder(const Llama2cTokenizer& tokenizer, std::size_t n_symbols)
      : tokenizer_(tokenizer), cache_bits_(std::clamp(static_cast<int>(std::bit_width(n_symbols)), 4, 14)) {}

  BpeMerge find(std::int32_t left, std::int32_t right) {
    const std::uint64_t key =
        (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
    Entry& entry = cache_[(key * 0x9E3779B97F4A7C15ULL) >> (64 - cache_bits_)];
    if (entry.key != key) entry = {key, tokenizer_.find_merge(left, right, concatenation_)};
    return entry.merge;
  }

 private:
  struct Entry {
    std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // not a pair, because ids are not negative
    BpeMerge merge;
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
    ids_.emplace(pieces_[id], static_cast<std::int32_t>(id));  // keeps the lowest id of a repeated piece
    longest_ = std::max(longest_, pieces_[id].size());
  }
}

std::vector<std::int32_t> Llama2cTokenizer::encode(std::string_view text, const SpecialRule& rule,
                                                   EncodingRecorder* recorder) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() + 2);
  if (recorder != nullptr && !text.empty()) recorder->part(text);
  const std::string_view whole = text;
  if (rule.policy == SpecialTokens::apply) ids.push_back(kBos);
  if (!text.empty()) append_character(" ", ids);  // the dummy prefix, which does not depend on `rule`
  while (!text.empty()) {
    // As in run.c, a character is one byte of any kind and the continuation bytes after it, four bytes at most.
    std::size_t length = 1;
    while (length < 4 && length < text.size() && is_continuation(text[length])) ++length;
    append_character(text.substr(0, length), ids);
    text.remove_prefix(length);
  }
  if (recorder != nullptr) recorder->begin_word(whole);
  merge(ids, recorder);
  if (recorder != nullptr) recorder->end_word(ids);
  return ids;
}

void Llama2cTokenizer::append_character(std::string_view character, std::vector<std::int32_t>& ids) const {
  const auto found = ids_.find(character);
  if (found != ids_.end()) {
    ids.push_back(found->second);
    return;
  }
  for (char byte : character) ids.push_back(static_cast<unsigned char>(byte) + kFirstByte);
}

BpeMerge Llama2cTokenizer::find_merge(std::int32_t left, std::int32_t right, std::string& concatenation) const {
  const std::string& a = pieces_[static_cast<std::size_t>(left)];
  const std::string& b = pieces_[static_cast<std::size_t>(right)];
  if (a.size() + b.size() > longest_) return {};
  concatenation.assign(a).append(b);
  const auto found = ids_.find(concatenation);
  if (found == ids_.end()) return {};
  const float score = scores_[static_cast<std::size_t>(found->second)];
  return score <= kNoScore ? BpeMerge{} : BpeMerge{rank_of_score(score), found->second};
}

/// Merges as Bpe does, with the score of the merged piece in place of a rank.
void Llama2cTokenizer::merge(std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const {
  const auto text = [&](std::int32_t id) { return std::string_view(pieces_[static_cast<std::size_t>(id)]); };
  if (recorder != nullptr) {
    recorder->rule(Explanation::Word::Rule::merges_by_score);
    recorder->begin_symbols();
    for (const std::int32_t id : ids) recorder->symbol(text(id));
  }
  const auto record = [&](const auto& left, const auto& right) {
    if (recorder == nullptr) return;
    const auto score = static_cast<double>(scores_[static_cast<std::size_t>(left.merge.merged)]);
    recorder->merge(score, static_cast<std::size_t>(right.previous), text(left.id), text(right.id),
                    text(left.merge.merged));
  };
  MergeScratch scratch;
  MergeFinder finder(*this, ids.size());
  merge_by_heap([&](const auto& left, const auto& right) { return finder.find(left.id, right.id); }, scratch, ids,
                record);
}

std::string Llama2cTokenizer::bytes(std::int32_t id) const {
  const std::string& piece = pieces_[checked_index(id)];
  if (id < kFirstByte) return "";
  if (id < kEndOfBytes) return std::string(1, static_cast<char>(id - kFirstByte));
  return piece;
}

std::string Llama2cTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  std::string text = bytes(id);
  // Removes the dummy prefix. The byte token <0x20> is not one.
  if (previous == kBos && id >= kEndOfBytes && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

Vocabulary read_vocabulary(std::span<const std::byte> file, std::string_view path) {
  ByteReader reader(file, path);
  const auto max_length = reader.number<std::int32_t>("max_token_length");
  if (max_length < 1 || max_length > kMaxLength) {
    throw BadCheckpoint(path, "expected a max_token_length from 1 to {}, got {}", kMaxLength, max_length);
  }
  Vocabulary vocabulary;
  while (!reader.rest().empty()) {
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
    vocabulary.pieces.emplace_back(reader.text(static_cast<std::uint64_t>(length), "piece"));
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
    // Otherwise an unknown character would silently become a different piece.
    if (vocabulary.pieces[static_cast<std::size_t>(id)] != expected) {
      throw BadCheckpoint(path, "expected the byte {} as token {}, got another piece", expected, id);
    }
  }
  return std::make_unique<Llama2cTokenizer>(std::move(vocabulary));
}

}  // namespace vitrine
