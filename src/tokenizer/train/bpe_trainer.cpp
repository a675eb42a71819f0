#include "tokenizer/train/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/hash.h"
#include "tokenizer/split.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::string_view kContinuingPrefix = "##";

std::string continuing_symbol(std::string_view character) { return std::string(kContinuingPrefix).append(character); }

/// A pair of symbols with its count in the corpus and the words in which it appeared.
struct CountedPair {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::uint64_t count = 0;
  std::vector<std::uint32_t> words;  // in ascending runs; later merges may have removed the pair from some
};

/// Finds pairs by their ids.
class PairIndex {
 public:
  CountedPair& at(std::size_t n) { return pairs_[n]; }
  const CountedPair& at(std::size_t n) const { return pairs_[n]; }
  std::size_t size() const { return pairs_.size(); }

  /// The index of the pair, which is added if it does not exist.
  std::uint32_t place(std::int32_t left, std::int32_t right) {
    if (2 * (pairs_.size() + 1) > slots_.size()) grow();
    const std::size_t i = slot(left, right);
    if (slots_[i] == kFree) {
      slots_[i] = static_cast<std::uint32_t>(pairs_.size());
      pairs_.push_back({left, right, 0, {}});
    }
    return slots_[i];
  }

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;
  std::size_t slot(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash_number(key) & mask;
    while (slots_[i] != kFree && (pairs_[slots_[i]].left != left || pairs_[slots_[i]].right != right)) {
      i = (i + 1) & mask;
    }
    return i;
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(4096, 2 * slots_.size()), kFree);
    for (std::size_t n = 0; n < pairs_.size(); ++n) {
      slots_[slot(pairs_[n].left, pairs_[n].right)] = static_cast<std::uint32_t>(n);
    }
  }

  std::vector<CountedPair> pairs_;
  std::vector<std::uint32_t> slots_;
};

class Trainer {
 public:
  Trainer(const WordCounts& words, const BpeTraining& options) : options_(options) {
    add_specials();
    if (options_.symbols == BpeSymbols::bytes) {
      add_bytes();
    } else {
      add_characters(words);
    }
    read_words(words);
  }
  TrainedBpe run(const ReportProgress& report);

 private:
  struct Word {
    std::uint64_t begin;  // in symbols_
    std::uint64_t count;
    std::uint32_t length;  // in symbols; the space after it is unused
  };
  struct Candidate {
    std::uint64_t count;  // when the candidate was added; an upper bound on the pair's count
    std::uint32_t pair;
  };

  void add_specials();
  void add_bytes();
  void add_characters(const WordCounts& words);
  void add_symbol(std::string symbol);
  void check_vocab_size(std::size_t n_symbols, const char* symbols) const;
  std::string spelled(const std::string& piece) const;
  void append_symbols(std::string_view word);
  void read_words(const WordCounts& words);
  bool comes_later(const Candidate& a, const Candidate& b) const;
  void push(std::uint32_t pair);
  std::uint32_t pop();
  std::int32_t id_of_merged(const CountedPair& pair);
  void merge(std::uint32_t pair, std::int32_t merged);
  void merge_in(std::uint32_t word, std::int32_t left, std::int32_t right, std::int32_t merged);
  void lose(std::int32_t left, std::int32_t right, std::uint64_t count);
  void gain(std::int32_t left, std::int32_t right, std::uint32_t word);

  const BpeTraining& options_;
  TrainedBpe result_;
  std::unordered_map<std::string, std::int32_t> ids_;  // of all pieces, as the file spells them
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<std::int32_t> symbols_;  // of all words, concatenated
  std::vector<Word> words_;
  PairIndex pairs_;
  std::vector<Candidate> heap_;
  std::vector<std::uint32_t> gained_;  // pairs whose count the current merge has increased
};

void Trainer::add_specials() {
  for (const std::string& special : options_.specials) {
    if (special.empty()) throw BadInput("special tokens", "expected texts, got an empty string");
    if (!is_valid_utf8(special)) throw BadInput("special tokens", "expected UTF-8, got \"{}\"", special);
    if (!ids_.emplace(special, static_cast<std::int32_t>(result_.pieces.size())).second) {
      throw BadInput("special tokens", "\"{}\" appears twice", special);
    }
    result_.pieces.push_back(special);
  }
  result_.n_special = result_.pieces.size();
}

void Trainer::check_vocab_size(std::size_t n_symbols, const char* symbols) const {
  const auto least = static_cast<std::int64_t>(result_.n_special + n_symbols);
  if (options_.vocab_size >= least && options_.vocab_size <= PieceTable::kMaxId) return;
  throw BadInput("vocabulary", "expected a size from {} ({} {} and {} special tokens) to {}, got {}", least, n_symbols,
                 symbols, result_.n_special, std::int64_t{PieceTable::kMaxId}, options_.vocab_size);
}

/// The text of a piece in the file.
std::string Trainer::spelled(const std::string& piece) const {
  return options_.symbols == BpeSymbols::bytes ? byte_level(piece) : piece;
}

void Trainer::add_symbol(std::string symbol) {
  std::string text = spelled(symbol);
  if (ids_.contains(text)) throw BadInput("special tokens", "expected texts that are not pieces, got \"{}\"", text);
  ids_.emplace(std::move(text), static_cast<std::int32_t>(result_.pieces.size()));
  result_.pieces.push_back(std::move(symbol));
}

void Trainer::add_bytes() {
  check_vocab_size(256, "bytes");
  for (const std::uint8_t byte : byte_level_order()) {
    byte_ids_[byte] = static_cast<std::int32_t>(result_.pieces.size());
    add_symbol(std::string(1, static_cast<char>(byte)));
  }
}

void Trainer::add_characters(const WordCounts& words) {
  std::set<std::string> all, continuing;  // in UTF-8, the order of bytes is that of code points
  words.for_each([&](std::string_view word, std::uint64_t) {
    for_each_character(word, [&](std::uint32_t, std::string_view c) {
      all.emplace(c);
      if (c.data() != word.data()) continuing.insert(continuing_symbol(c));
    });
  });
  check_vocab_size(all.size() + continuing.size(), "characters");
  for (const std::string& c : all) add_symbol(c);
  for (const std::string& c : continuing) add_symbol(c);
}

void Trainer::append_symbols(std::string_view word) {
  if (options_.symbols == BpeSymbols::bytes) {
    for (const char byte : word) symbols_.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    return;
  }
  for_each_character(word, [&](std::uint32_t, std::string_view c) {
    symbols_.push_back(ids_.at(c.data() == word.data() ? std::string(c) : continuing_symbol(c)));
  });
}

void Trainer::read_words(const WordCounts& words) {
  std::uint64_t n_symbols = 0, total = 0;
  std::size_t n_words = 0;
  words.for_each([&](std::string_view word, std::uint64_t count) {
    if (word.size() < 2) return;
    ++n_words;
    n_symbols += word.size();
    if (__builtin_mul_overflow(count, word.size(), &count) || __builtin_add_overflow(total, count, &total)) {
      throw OutOfCapacity("corpus", "expected counts of pairs below 2^64");
    }
  });
  words_.reserve(n_words);
  symbols_.reserve(n_symbols);
  words.for_each([&](std::string_view word, std::uint64_t count) {
    if (word.size() < 2) return;
    const std::size_t begin = symbols_.size();
    append_symbols(word);
    words_.push_back({begin, count, static_cast<std::uint32_t>(symbols_.size() - begin)});
  });
}

/// Whether `b` is merged before `a`.
bool Trainer::comes_later(const Candidate& a, const Candidate& b) const {
  if (a.count != b.count) return a.count < b.count;
  const CountedPair& p = pairs_.at(a.pair);
  const CountedPair& q = pairs_.at(b.pair);
  if (options_.ties == BpeTies::smaller_id) return std::pair(p.left, p.right) > std::pair(q.left, q.right);
  const auto piece = [&](std::int32_t id) -> const std::string& {
    return result_.pieces[static_cast<std::size_t>(id)];
  };
  const int order = piece(p.left).compare(piece(q.left));
  return order != 0 ? order < 0 : piece(p.right) < piece(q.right);
}

void Trainer::push(std::uint32_t pair) {
  const std::uint64_t count = pairs_.at(pair).count;
  if (count < std::max<std::uint64_t>(options_.min_frequency, 1)) return;
  heap_.push_back({count, pair});
  std::push_heap(heap_.begin(), heap_.end(), [this](const auto& a, const auto& b) { return comes_later(a, b); });
}

std::uint32_t Trainer::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), [this](const auto& a, const auto& b) { return comes_later(a, b); });
  const std::uint32_t pair = heap_.back().pair;
  heap_.pop_back();
  return pair;
}

void Trainer::lose(std::int32_t left, std::int32_t right, std::uint64_t count) {
  CountedPair& pair = pairs_.at(pairs_.place(left, right));
  pair.count -= count;
  if (pair.count == 0) pair.words = {};
}

void Trainer::gain(std::int32_t left, std::int32_t right, std::uint32_t word) {
  const std::uint32_t place = pairs_.place(left, right);
  CountedPair& pair = pairs_.at(place);
  pair.count += words_[word].count;
  if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  gained_.push_back(place);
}

/// Replaces each pair (left, right) in the word by `merged`, from left to right.
void Trainer::merge_in(std::uint32_t number, std::int32_t left, std::int32_t right, std::int32_t merged) {
  Word& word = words_[number];
  std::int32_t* const s = symbols_.data() + word.begin;
  std::uint32_t read = 0;
  while (read + 1 < word.length && (s[read] != left || s[read + 1] != right)) ++read;
  std::uint32_t written = read;
  while (read < word.length) {
    if (read + 1 == word.length || s[read] != left || s[read + 1] != right) {
      s[written++] = s[read++];
      continue;
    }
    lose(left, right, word.count);
    if (written > 0) {
      lose(s[written - 1], left, word.count);
      gain(s[written - 1], merged, number);
    }
    if (read + 2 < word.length) {
      lose(right, s[read + 2], word.count);
      gain(merged, s[read + 2], number);
    }
    s[written++] = merged;
    read += 2;
  }
  word.length = written;
}

void Trainer::merge(std::uint32_t place, std::int32_t merged) {
  const std::int32_t left = pairs_.at(place).left, right = pairs_.at(place).right;
  const std::vector<std::uint32_t> words = std::exchange(pairs_.at(place).words, {});
  for (const std::uint32_t word : words) merge_in(word, left, right, merged);
  std::sort(gained_.begin(), gained_.end());
  gained_.erase(std::unique(gained_.begin(), gained_.end()), gained_.end());
  for (const std::uint32_t pair : gained_) {
    pairs_.at(pair).words.shrink_to_fit();
    push(pair);
  }
  gained_.clear();
}

std::int32_t Trainer::id_of_merged(const CountedPair& pair) {
  std::string piece = result_.pieces[static_cast<std::size_t>(pair.left)];
  const std::string_view right = result_.pieces[static_cast<std::size_t>(pair.right)];
  piece += right.substr(options_.symbols == BpeSymbols::bytes ? 0 : kContinuingPrefix.size());
  const auto [entry, is_new] = ids_.emplace(spelled(piece), static_cast<std::int32_t>(result_.pieces.size()));
  if (entry->second < static_cast<std::int32_t>(result_.n_special)) {
    throw BadInput("special tokens", "expected texts that are not pieces, got \"{}\"", entry->first);
  }
  if (is_new) result_.pieces.push_back(std::move(piece));
  return entry->second;
}

TrainedBpe Trainer::run(const ReportProgress& report) {
  for (std::uint32_t n = 0; n < words_.size(); ++n) {
    const std::int32_t* const s = symbols_.data() + words_[n].begin;
    for (std::uint32_t i = 0; i + 1 < words_[n].length; ++i) gain(s[i], s[i + 1], n);
    gained_.clear();
  }
  for (std::uint32_t pair = 0; pair < pairs_.size(); ++pair) push(pair);
  const auto before = static_cast<std::int64_t>(result_.pieces.size());
  for (;;) {
    const auto n_pieces = static_cast<std::int64_t>(result_.pieces.size());
    if (n_pieces >= options_.vocab_size || heap_.empty()) break;
    const std::uint64_t count = heap_.front().count;
    const std::uint32_t place = pop();
    if (pairs_.at(place).count != count) {
      push(place);  // merges have reduced its count since it was added
      continue;
    }
    const CountedPair& pair = pairs_.at(place);
    result_.merges.push_back({pair.left, pair.right});
    merge(place, id_of_merged(pair));
    if (report && n_pieces % 64 == 0) report(n_pieces - before, options_.vocab_size - before);
  }
  return std::move(result_);
}

}  // namespace

std::vector<std::uint8_t> byte_level_order() {
  std::vector<std::uint8_t> order(256);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  const auto character = [](std::uint8_t byte) {
    return code_point(byte_level(std::string(1, static_cast<char>(byte))));
  };
  std::sort(order.begin(), order.end(), [&](std::uint8_t a, std::uint8_t b) { return character(a) < character(b); });
  return order;
}

TrainedBpe train_bpe(WordCounts words, const BpeTraining& options, const ReportProgress& report) {
  Trainer trainer(words, options);
  words = {};
  return trainer.run(report);
}

}  // namespace vitrine
