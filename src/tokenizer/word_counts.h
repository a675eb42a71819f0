// How often each word stands in a corpus: what byte pair encoding is trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Words, which hold any bytes, and 64-bit counts. A word takes its bytes and about 36 more.
class WordCounts {
 public:
  void add(std::string_view word, std::uint64_t count = 1);
  void add(const WordCounts& other);
  std::size_t size() const { return entries_.size(); }
  std::uint64_t total() const;  ///< Words, counted as often as they stand.
  void clear();                 ///< Keeps the memory.

  /// Calls `visit(word, count)` for each.
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
  std::vector<std::uint32_t> slots_;  // places in entries_, by hash with linear probing; at most three quarters full
  std::vector<std::unique_ptr<char[]>> blocks_;  // of kBlock bytes each: the words
  std::vector<std::unique_ptr<char[]>> long_;    // longer ones, one each
  std::size_t n_blocks_used_ = 0;
  std::size_t block_used_ = 0;  // of the last one that is used
};

struct WordCounting {
  std::string pattern;                ///< The regex that cuts text into words, Oniguruma's syntax; "": GPT-2's.
  std::vector<std::string> specials;  ///< Their texts are cut out first and count for nothing.
  bool by_line = false;               ///< No word reaches over a line break, as where `tokenizers` reads files.
};

/// Counts the words of `files` (tokenizer/corpus.h), `pool.size()` pieces at a time; the counts do not depend on the
/// number of threads. Memory: the words that differ, and a few megabytes a thread. `report` hears of bytes. Throws what
/// CorpusReader throws, BadInput where the files hold no word, BadCheckpoint for a broken pattern.
WordCounts count_words(const std::vector<std::string>& files, const WordCounting& options, ThreadPool& pool,
                       const ReportProgress& report = {});

/// Every character of `files`, ascending.
std::vector<std::uint32_t> characters_of(const std::vector<std::string>& files, const ReportProgress& report = {});

}  // namespace vitrine
