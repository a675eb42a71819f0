// Counts the words of a corpus, on which byte pair encoding is trained.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/progress.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Words, which may contain any bytes, with 64-bit counts. A word takes about 36 bytes of memory plus its length.
class WordCounts {
 public:
  void add(std::string_view word, std::uint64_t count = 1);
  void add(const WordCounts& other);
  std::size_t size() const { return entries_.size(); }
  std::uint64_t total() const;  ///< The sum of the counts.
  void clear();                 ///< Keeps the memory for reuse.

  /// Calls `visit(word, count)` for each word.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& e : entries_) visit(std::string_view(e.bytes, e.length), e.count);
  }

 private:
  struct Entry {
    const char* bytes;
    std::uint64_t count;
    std::uint32_t length;
    std::uint32_t hash;
  };
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;
  void add(std::string_view word, std::uint32_t hash, std::uint64_t count);
  void grow();
  const char* keep(std::string_view word);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;             // indices into entries_, by hash with linear probing; at most 3/4 full
  std::vector<std::unique_ptr<char[]>> blocks_;  // of kBlock bytes: the words
  std::vector<std::unique_ptr<char[]>> long_;    // words that are too long for the blocks
  std::size_t n_blocks_used_ = 0;
  std::size_t block_used_ = 0;  // bytes used in the last block
};

struct WordCounting {
  std::string pattern;                ///< The regex that splits text into words, in Oniguruma's syntax; "": GPT-2's.
  std::vector<std::string> specials;  ///< These texts are removed before words are counted.
  bool by_line = false;               ///< Words do not extend across line breaks, as when `tokenizers` reads files.
  Json normalizer = {};               ///< As in a tokenizer.json; null: none.
  Json pre_tokenizer = {};            ///< As in a tokenizer.json, in place of the pattern; null: the pattern.
};

/// Counts the words of `files` (see tokenizer/train/corpus.h), `pool.size()` pieces at a time. The counts do not depend
/// on the number of threads. Memory grows with the number of distinct words, plus a few megabytes per thread. `report`
/// receives bytes. Throws what CorpusReader throws, BadInput if the files contain no word, BadCheckpoint for a
/// malformed pattern.
WordCounts count_words(const std::vector<std::string>& files, const WordCounting& options, ThreadPool& pool,
                       const ReportProgress& report = {});

/// The most frequent words, at most `most`, in descending order of their counts, which are at least `min_frequency`. Of
/// words with equal counts, the one whose bytes are smaller comes first.
std::vector<std::string> frequent_words(const WordCounts& words, std::size_t most, std::uint64_t min_frequency);

enum class CharacterOrder {
  code_point,  ///< ascending
  frequency,   ///< the most frequent first; of equally frequent ones, the one with the smaller code point
};

/// The `most` most frequent characters of `files`. Of equally frequent ones, those with smaller code points are kept.
/// Throws what characters_of() throws.
std::vector<std::uint32_t> frequent_characters(const std::vector<std::string>& files, std::size_t most,
                                               CharacterOrder order, const ReportProgress& report = {});

/// The characters of `files`, in ascending order. Throws what CorpusReader throws, BadInput if the files are empty.
std::vector<std::uint32_t> characters_of(const std::vector<std::string>& files, const ReportProgress& report = {});

}  // namespace vitrine
