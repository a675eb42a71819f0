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
  std::string document_separator;                     ///< As CorpusOptions::separator (tokenizer/train/corpus.h).
  std::optional<std::int32_t> document_token;         ///< The first token of every document, if any.
  std::int64_t shard_tokens = std::int64_t{1} << 27;  ///< A shard with this many gets no further document.
};

struct Packed {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t lost_bytes = 0;  ///< Dropped, because the vocabulary lacks their characters.
  std::int64_t shards = 0;
};

/// The default first token of documents: BOS, else a special token with a usual name (<|endoftext|>, </s>, …). nullopt
/// for a tokenizer with neither, such as a character tokenizer.
std::optional<std::int32_t> document_token_of(const Tokenizer& tokenizer);
/// The token that ends a text: the tokenizer's first stop id, else a special token with a usual name (</s>, <eos>, …).
std::optional<std::int32_t> end_token_of(const Tokenizer& tokenizer);
/// The id of the special token with this text, if there is one.
std::optional<std::int32_t> special_token(const Tokenizer& tokenizer, const std::string& text);

/// Tokenizes the documents of `files` (tokenizer/train/corpus.h) and writes them to `folder`, in order. Special tokens
/// in the text are not recognized. Documents without tokens are skipped; a document longer than a megabyte is tokenized
/// in parts, cut between words. Throws as CorpusReader, ShardWriter and `report` do; then no file remains.
Packed pack_corpus(const std::vector<std::string>& files, const Tokenizer& tokenizer, const std::string& folder,
                   const PackOptions& options, ThreadPool& pool, const ReportProgress& report = {});

}  // namespace vitrine
