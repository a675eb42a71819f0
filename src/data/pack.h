// From text to token shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/shards.h"
#include "parallel/thread_pool.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

struct PackOptions {
  std::string document_separator;                     ///< As CorpusOptions::separator (tokenizer/corpus.h).
  std::optional<std::int32_t> document_token;         ///< Every document begins with it; none: documents just follow.
  std::int64_t shard_tokens = std::int64_t{1} << 27;  ///< A shard with as many takes no further document.
};

struct Packed {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t lost_bytes = 0;  ///< That the tokens spell fewer than the text has: what the vocabulary lacks.
  std::int64_t shards = 0;
};

/// The token that documents should begin with: BOS, else a special token by one of its usual names (<|endoftext|>,
/// </s>, …). None where the tokenizer has neither, as one of characters.
std::optional<std::int32_t> document_token_of(const Tokenizer& tokenizer);
/// The id of the special token that is spelled so; none where there is none.
std::optional<std::int32_t> special_token(const Tokenizer& tokenizer, const std::string& text);

/// Tokenizes the documents of `files` (tokenizer/corpus.h) and writes them to `folder`, in order. Text is only text:
/// special tokens written in it are not recognized. Documents without text are passed over; one longer than a megabyte
/// is tokenized in parts, cut between words. Throws what CorpusReader and ShardWriter throw; then nothing is left.
Packed pack_corpus(const std::vector<std::string>& files, const Tokenizer& tokenizer, const std::string& folder,
                   const PackOptions& options, ThreadPool& pool, const ReportProgress& report = {});

}  // namespace vitrine
