#include "tokenizer/train/word_counts.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/hash.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/split.h"
#include "tokenizer/train/corpus.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr std::size_t kMaxWords = 0xFFFFFFF0;
constexpr std::size_t kMaxOwnWords = std::size_t{1} << 16;  // that a thread counts before it adds them to the total

/// Divides a text into the words that are counted.
PreTokenizers splitter(const WordCounting& options) {
  if (!options.pre_tokenizer.is_null()) return parse_pre_tokenizers(options.pre_tokenizer, "pre-tokenizer");
  const std::string_view pattern = options.pattern.empty() ? std::string_view(kGpt2Pattern) : options.pattern;
  std::vector<std::unique_ptr<const PreTokenizer>> parts;
  parts.push_back(make_split_pre_tokenizer(
      Split(Regex(pattern, RegexSyntax::oniguruma, "pattern"), SplitBehavior::isolated, false)));
  return PreTokenizers(std::move(parts), {"Split"});
}

std::uint32_t short_hash(std::string_view word) { return static_cast<std::uint32_t>(hash_bytes(word) >> 32); }

}  // namespace

void WordCounts::add(std::string_view word, std::uint64_t count) { add(word, short_hash(word), count); }

void WordCounts::add(const WordCounts& other) {
  for (const Entry& e : other.entries_) add(std::string_view(e.bytes, e.length), e.hash, e.count);
}

void WordCounts::add(std::string_view word, std::uint32_t hash, std::uint64_t count) {
  if (4 * entries_.size() >= 3 * slots_.size()) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  for (; slots_[i] != kFree; i = (i + 1) & mask) {
    Entry& e = entries_[slots_[i]];
    if (e.hash == hash && e.length == word.size() && std::memcmp(e.bytes, word.data(), word.size()) == 0) {
      e.count += count;
      return;
    }
  }
  if (entries_.size() == kMaxWords) throw OutOfCapacity("corpus", "expected at most {} different words", kMaxWords);
  slots_[i] = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({keep(word), count, static_cast<std::uint32_t>(word.size()), hash});
}

void WordCounts::grow() {
  slots_.assign(std::max<std::size_t>(1024, 2 * slots_.size()), kFree);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t n = 0; n < entries_.size(); ++n) {
    std::size_t i = entries_[n].hash & mask;
    while (slots_[i] != kFree) i = (i + 1) & mask;
    slots_[i] = static_cast<std::uint32_t>(n);
  }
}

const char* WordCounts::keep(std::string_view word) {
  char* place = nullptr;
  if (word.size() > kBlock / 4) {
    place = long_.emplace_back(new char[word.size()]).get();
  } else {
    if (n_blocks_used_ == 0 || block_used_ + word.size() > kBlock) {
      if (n_blocks_used_ == blocks_.size()) blocks_.emplace_back(new char[kBlock]);
      ++n_blocks_used_;
      block_used_ = 0;
    }
    place = blocks_[n_blocks_used_ - 1].get() + block_used_;
    block_used_ += word.size();
  }
  std::memcpy(place, word.data(), word.size());
  return place;
}

std::uint64_t WordCounts::total() const {
  std::uint64_t sum = 0;
  for (const Entry& e : entries_) sum += e.count;
  return sum;
}

void WordCounts::clear() {
  entries_.clear();
  std::fill(slots_.begin(), slots_.end(), kFree);
  long_.clear();
  n_blocks_used_ = block_used_ = 0;
}

WordCounts count_words(const std::vector<std::string>& files, const WordCounting& options, ThreadPool& pool,
                       const ReportProgress& report) {
  const PreTokenizers split = splitter(options);
  const std::unique_ptr<const Normalizer> normalizer = parse_normalizer(options.normalizer, "normalizer");
  std::vector<AddedToken> tokens;
  for (const std::string& text : options.specials) {
    tokens.push_back({static_cast<std::int32_t>(tokens.size()), text, false, false, false, false, true});
  }
  const AddedTokens specials(std::move(tokens), nullptr);

  WordCounts all;
  std::mutex mutex;
  const auto hand_over = [&](WordCounts& own) {
    const std::lock_guard lock(mutex);
    all.add(own);
    own.clear();
  };
  const auto n_threads = static_cast<std::size_t>(pool.size());
  std::vector<WordCounts> own(n_threads);  // each thread counts separately, which suffices for most words
  const auto count_part = [&](std::string_view text, WordCounts& counts) {
    while (!text.empty()) {
      const std::size_t end = options.by_line ? std::min(text.find('\n'), text.size() - 1) + 1 : text.size();
      std::string_view line = text.substr(0, end);
      std::string normalized;
      if (normalizer != nullptr) line = normalized = (*normalizer)(std::string(line), nullptr);
      split(line, false, [&](std::string_view word, bool) { counts.add(word); });
      text.remove_prefix(end);
    }
  };
  const auto count_piece = [&](std::string_view text, WordCounts& counts) {
    specials.split_raw(
        text, SpecialTokens::apply, [&](std::string_view part) { count_part(part, counts); },
        [](std::int32_t, std::string_view) {});
    if (counts.size() > kMaxOwnWords) hand_over(counts);
  };
  CorpusReader reader(files, {"", options.specials});
  std::vector<CorpusReader::Piece> pieces(n_threads);
  for (std::size_t n = n_threads; n == n_threads;) {
    for (n = 0; n < n_threads && reader.next(pieces[n]);) ++n;
    pool.parallel_for(static_cast<std::int64_t>(n), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        count_piece(pieces[static_cast<std::size_t>(i)].text, own[static_cast<std::size_t>(thread)]);
      }
    });
    if (report) report(reader.bytes_done(), reader.bytes_total());
  }
  for (WordCounts& counts : own) hand_over(counts);
  if (all.size() == 0) throw BadInput("corpus", "expected text to train on, but the files contain none");
  return all;
}

std::vector<std::string> frequent_words(const WordCounts& words, std::size_t most, std::uint64_t min_frequency) {
  std::vector<std::pair<std::uint64_t, std::string_view>> counted;
  words.for_each([&](std::string_view word, std::uint64_t count) {
    if (count >= min_frequency) counted.emplace_back(count, word);
  });
  std::sort(counted.begin(), counted.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<std::string> result;
  for (const auto& [count, word] : std::span(counted).first(std::min(most, counted.size()))) result.emplace_back(word);
  return result;
}

std::vector<std::uint32_t> frequent_characters(const std::vector<std::string>& files, std::size_t most,
                                               CharacterOrder order, const ReportProgress& report) {
  std::vector<std::uint64_t> counts(0x110000);
  CorpusReader reader(files, {});
  for (CorpusReader::Piece piece; reader.next(piece);) {
    for_each_character(piece.text, [&](std::uint32_t c, std::string_view) { ++counts[c]; });
    if (report) report(reader.bytes_done(), reader.bytes_total());
  }
  std::vector<std::uint32_t> characters;
  for (std::uint32_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0) characters.push_back(c);
  }
  if (characters.empty()) throw BadInput("corpus", "expected text to train on, but the files contain none");
  std::stable_sort(characters.begin(), characters.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return counts[a] > counts[b]; });
  characters.resize(std::min(most, characters.size()));
  if (order == CharacterOrder::code_point) std::sort(characters.begin(), characters.end());
  return characters;
}

std::vector<std::uint32_t> characters_of(const std::vector<std::string>& files, const ReportProgress& report) {
  return frequent_characters(files, std::numeric_limits<std::size_t>::max(), CharacterOrder::code_point, report);
}

}  // namespace vitrine
